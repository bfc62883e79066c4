"""Files that are not code: the browser client, wherever this installation has it."""

from __future__ import annotations

from pathlib import Path


def browser_dir() -> Path:
    """In a wheel the files lie inside the package, in a checkout beside it."""
    package = Path(__file__).resolve().parent
    packaged = package / "browser"
    return packaged if packaged.is_dir() else package.parent / "clients" / "browser"
