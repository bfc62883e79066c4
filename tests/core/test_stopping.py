"""Stop sequences, wherever the pieces of the text were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.stopping import Stops


@pytest.mark.parametrize(
    ("stops", "pieces", "shown", "found"),
    [
        ((), ["one ", "two"], ["one ", "two"], False),
        (("END",), ["one E", "ND two"], ["one ", ""], True),
        (("END",), ["one E", "ast"], ["one ", "East"], False),
        (("b", "ab"), ["xab"], ["x"], True),
        (("aab",), ["aa", "aab"], ["", "aa"], True),
    ],
)
def test_what_may_be_shown(stops: tuple[str, ...], pieces: list[str], shown: list[str], found: bool) -> None:
    """What may begin a stop sequence is held back, and comes when it was none."""
    one = Stops(stops)
    assert [one.push(piece) for piece in pieces] == shown
    assert one.found is found


def test_what_was_held_comes_at_the_end() -> None:
    one = Stops(("END",))
    assert (one.push("the EN"), one.flush()) == ("the ", "EN")


@given(
    st.lists(st.text("ab", max_size=4), max_size=12),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
)
def test_cuts_do_not_matter(pieces: list[str], stops: list[str]) -> None:
    """The text ends at the first stop sequence to be complete in the whole of it, or comes whole."""
    one, shown = Stops(stops), ""
    for piece in pieces:
        shown += one.push(piece)
    if not one.found:
        shown += one.flush()
    whole = "".join(pieces)
    assert one.found is any(stop in whole for stop in stops)
    assert whole.startswith(shown)
    if one.found:
        assert not any(stop in shown for stop in stops)
    else:
        assert shown == whole
