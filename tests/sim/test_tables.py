"""What a person has written is refused with its key, and with what may stand there."""

from __future__ import annotations

import pytest

from voicepipe.errors import ConfigError
from voicepipe.sim.tables import Table

KNOWN = ("requests_s", "turns", "kind", "tool", "about")


def table(**values: object) -> Table:
    return Table(values, "chat", KNOWN)


def test_what_is_right_is_returned() -> None:
    found = table(requests_s=2.5, turns=3, kind="a", tool=True, about="text")
    assert (found.number("requests_s", 0, 10), found.whole("turns", 1, 5)) == (2.5, 3)
    assert (found.word("kind", ("a", "b")), found.flag("tool"), found.text("about")) == ("a", True, "text")


def test_what_is_missing_has_its_default() -> None:
    found = table()
    assert (found.number("requests_s", 0, 10, 1), found.whole("turns", 1, 5, 2)) == (1.0, 2)
    assert (found.word("kind", ("a",), "a"), found.flag("tool"), found.text("about")) == ("a", False, "")


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"request_s": 1}, "chat.request_s", "did you mean `requests_s`?"),
        ({"zzz": 1}, "chat.zzz", "known are requests_s, turns"),
        ({"requests_s": 11}, "chat.requests_s", "from 0 to 10, got 11"),
        ({"requests_s": "fast"}, "chat.requests_s", "a number from 0 to 10"),
        ({"requests_s": True}, "chat.requests_s", "a number from 0 to 10"),
        ({"requests_s": float("nan")}, "chat.requests_s", "a number from 0 to 10"),
        ({}, "chat.requests_s", "missing"),
    ],
)
def test_wrong_numbers_and_unknown_keys_are_refused(values: dict[str, object], field: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table(**values).number("requests_s", 0, 10)
    assert caught.value.field == field and says in caught.value.message


def test_other_kinds_are_refused_alike() -> None:
    for wrong, read in (
        (table(turns=1.5), lambda one: one.whole("turns", 1, 5)),
        (table(kind="c"), lambda one: one.word("kind", ("a", "b"))),
        (table(kind=1), lambda one: one.word("kind", ("a", "b"))),
        (table(tool="yes"), lambda one: one.flag("tool")),
        (table(about=1), lambda one: one.text("about")),
    ):
        with pytest.raises(ConfigError, match="expected"):
            read(wrong)  # type: ignore[no-untyped-call]


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a table with the keys") as caught:
        Table([1], "chat.image", KNOWN)
    assert caught.value.field == "chat.image"
