"""The browser client's files: what is served, as what, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from voicepipe.webfiles import load_web_files


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    (root / "worklets").mkdir(parents=True)
    (root / "index.html").write_text("<!doctype html>")
    (root / "app.js").write_text("let a")
    (root / "worklets" / "player.js").write_text("let b")
    (root / "notes.txt").write_text("private")
    (tmp_path / "secret.js").write_text("secret")
    (root / "link.js").symlink_to(tmp_path / "secret.js")
    return root


def test_known_kinds_are_served_by_exact_path_and_nothing_else(site: Path) -> None:
    files = load_web_files(site)
    assert set(files) == {"/", "/index.html", "/app.js", "/worklets/player.js"}
    assert files["/"] is files["/index.html"]
    assert files["/app.js"].body == b"let a"


def test_types_and_security_headers(site: Path) -> None:
    files = load_web_files(site)
    assert files["/"].content_type == "text/html; charset=utf-8"
    headers = files["/app.js"].all_headers()
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Length"] == "5"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy


def test_no_folder_no_files() -> None:
    assert load_web_files(None) == {}
