"""Clients that people already have, unchanged but for the URL, each in an environment of its own.

They are fetched, and have to be there, where VOICEPIPE_INTEROP is set; else what was fetched before is used, and
the rest is skipped.
"""
