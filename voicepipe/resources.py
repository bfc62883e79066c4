"""Files that are not code: the browser client and the dashboards, wherever this installation has them."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def browser_dir() -> Path:
    return _place("browser", "clients/browser")


def dashboards_dir() -> Path:
    """Of the Grafana dashboard, and the rules for Prometheus."""
    return _place("dashboards", "docs/dashboards")


def _place(packaged: str, in_checkout: str) -> Path:
    """In a wheel the files lie inside the package, in a checkout beside it."""
    inside = _PACKAGE / packaged
    return inside if inside.is_dir() else _PACKAGE.parent / in_checkout


def pictures_dir() -> Path | None:
    """What is shown at /experiments where nobody says: the pictures of the documentation, in a checkout."""
    docs = _PACKAGE.parent / "docs"
    return docs if docs.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file() else None
