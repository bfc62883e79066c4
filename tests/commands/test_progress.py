"""How far it is: a line now and then, with an estimate."""

from __future__ import annotations

import pytest

from voicepipe.commands import progress
from voicepipe.commands.progress import Lines, bar, shown


def test_a_line_at_most_every_ten_seconds() -> None:
    """However often it is asked; the estimate is what the rest takes at the same pace."""
    lines = Lines("goodput", now=100.0)
    assert lines.line(0, 10, 100.0) is None and lines.line(1, 10, 109.9) is None
    assert lines.line(2, 10, 110.0) == "goodput: 2/10 runs after 10 s; about 40 s left"
    assert lines.line(3, 10, 119.0) is None
    assert lines.line(5, 10, 130.0) == "goodput: 5/10 runs after 30 s; about 30 s left"


def test_before_the_first_and_after_the_last() -> None:
    """There is nothing to go by, and nothing left to say."""
    lines = Lines("goodput", now=0.0)
    assert lines.line(0, 4, 10.0) == "goodput: 0/4 runs after 10 s; no estimate before the first"
    assert lines.line(4, 4, 60.0) is None


def test_a_bar() -> None:
    assert bar("goodput", 1, 2) == f"goodput [{'#' * 15}{'.' * 15}] 1/2 runs"


def test_what_is_over_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """To a file."""
    with shown("goodput") as show:
        show(0, 2)
        show(2, 2)
    assert capsys.readouterr().err == ""


def test_a_file_gets_whole_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No bar that is written over."""
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    with shown("goodput") as show:
        show(1, 2)
    assert capsys.readouterr().err.startswith("voicepipe: goodput: 1/2 runs after 0 s; about 0 s left\n")
