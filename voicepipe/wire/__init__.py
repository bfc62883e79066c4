"""Dialects, sans-I/O: bytes and text in, messages out, and back. `messages` is what they mean."""
