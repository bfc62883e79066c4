"""How much of a prompt is new, in tokens, by its characters."""

from __future__ import annotations

import pytest

from voicepipe.engines.base import ChatMessage
from voicepipe.engines.unread import CHARACTERS_PER_TOKEN, MESSAGE_TOKENS, tokens_of, unread_tokens

SYSTEM = ChatMessage("system", "Be brief.")
LONG = ChatMessage("user", "x" * 420)


def test_a_prompt_is_its_characters_and_its_marks() -> None:
    """The reply's opening is written too."""
    assert tokens_of(()) == MESSAGE_TOKENS
    assert tokens_of((LONG,)) == pytest.approx(420 / CHARACTERS_PER_TOKEN + 2 * MESSAGE_TOKENS)


def test_an_empty_slot_reads_all_of_it() -> None:
    """Whatever it is."""
    assert unread_tokens((), (SYSTEM, LONG)) == tokens_of((SYSTEM, LONG))


def test_what_was_read_to_its_end_leaves_the_opening() -> None:
    """Which follows the last message."""
    assert unread_tokens((SYSTEM, LONG), (SYSTEM, LONG)) == MESSAGE_TOKENS


@pytest.mark.parametrize("more", [1, 42])
def test_a_message_that_has_grown_costs_its_new_words(more: int) -> None:
    """What somebody says while it is being read."""
    longer = ChatMessage("user", LONG.content + "y" * more)
    wanted = MESSAGE_TOKENS + more / CHARACTERS_PER_TOKEN
    assert unread_tokens((SYSTEM, LONG), (SYSTEM, longer)) == pytest.approx(wanted)


def test_nothing_is_shared_behind_a_difference() -> None:
    """A prefix ends where prompts part."""
    other = ChatMessage("system", "Be verbose.")
    shared = len("Be ") / CHARACTERS_PER_TOKEN
    wanted = tokens_of((other, LONG)) - MESSAGE_TOKENS - shared
    assert unread_tokens((SYSTEM, LONG), (other, LONG)) == pytest.approx(wanted)
    assert unread_tokens((SYSTEM, LONG), (SYSTEM, ChatMessage("assistant", LONG.content))) == tokens_of((LONG,))
