"""The conversation so far: lines by identity, the oldest go first."""

from __future__ import annotations

from voicepipe.core.events import Line
from voicepipe.core.history import FIRST, History


def test_the_oldest_line_goes() -> None:
    """No more than so many are kept, in order."""
    history = History(2)
    for text in "abc":
        history.add(Line("user", text))
    assert [line.text for line in history.lines] == ["b", "c"]


def test_the_oldest_lines_go_where_they_have_too_many_characters() -> None:
    """By addition, correction or change; the newest stays however long it is."""
    history = History(9, max_chars=5)
    lines = [Line("user", text) for text in ("aa", "bb", "c")]
    for line in lines:
        history.add(line, line.text)
    assert [line.text for line in history.lines] == ["aa", "bb", "c"]
    assert history.replace(lines[2], Line("user", "cc"))
    assert [line.text for line in history.lines] == ["bb", "cc"]
    history.change("c", "cccccc")
    assert [line.text for line in history.lines] == ["cccccc"]
    history.add(Line("user", "d"))
    assert [line.text for line in history.lines] == ["d"]


def test_lines_are_told_apart_by_identity() -> None:
    """The same words may have been said twice: the line that is meant goes, or is corrected."""
    history = History(9)
    first, second = Line("user", "yes"), Line("user", "yes")
    history.add(first)
    history.add(second)
    assert history.replace(second, Line("user", "yet"))
    assert [line.text for line in history.lines] == ["yes", "yet"]
    history.remove(first)
    assert [line.text for line in history.lines] == ["yet"]


def test_what_is_not_there_is_neither_removed_nor_corrected() -> None:
    """It has gone with the oldest, or never was."""
    history = History(9)
    history.add(Line("user", "yes"))
    assert not history.replace(Line("user", "yes"), Line("user", "no"))
    history.remove(Line("user", "yes"))
    history.remove(None)
    assert [line.text for line in history.lines] == ["yes"]


def named(*names: str) -> History:
    history = History(9)
    for name in names:
        history.add(Line("user", name), name)
    return history


def test_a_line_has_its_place() -> None:
    """Behind another one, at the beginning, or at the end where that one is not here."""
    history = named("a", "c")
    history.add(Line("user", "b"), "b", after="a")
    history.add(Line("user", "0"), after=FIRST)
    history.add(Line("user", "d"), after="gone")
    assert [line.text for line in history.lines] == ["0", "a", "b", "c", "d"]


def test_a_line_is_known_by_its_name() -> None:
    """Whatever becomes of its words."""
    history = named("a", "b")
    history.replace(history.lines[0], Line("user", "A"))
    history.change("b", "B")
    assert [line.text for line in history.lines] == ["A", "B"]
    history.delete("a")
    assert history.has("b") and not history.has("a") and not history.has("")
    history.delete("a")
    history.change("a", "x")
    assert [line.text for line in history.lines] == ["B"]


def test_it_goes_on_with_what_another_one_has_left() -> None:
    """Names and all; the oldest lines go where there are too many."""
    history = History(2)
    history.add(Line("user", "forgotten"))
    history.restore(named("a", "b", "c").entries)
    assert [line.text for line in history.lines] == ["b", "c"] and history.has("c") and not history.has("a")
