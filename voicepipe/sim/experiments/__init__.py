"""Experiments by name, a module each: what is asked, its points, a run of one, and its charts."""
