"""What is cut of a prompt that exceeds its context, with words and characters in place of a model's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.engines.base import ChatMessage, Prompt, Role
from voicepipe.engines.fit import Fitter
from voicepipe.errors import EngineError

MARKUP = 4
"""Tokens that the template adds to each message."""
OPENING = 3
"""Tokens of "the assistant begins to speak"."""
CONTEXT = 256


class Characters:
    """One token per character. A NUL is what the template adds."""

    def __init__(self, opening: int = OPENING) -> None:
        self.opening = opening

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        whole = "".join("\0" * MARKUP + m.content for m in messages)
        return self.split(whole + "\0" * self.opening)

    def split(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def text(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


def said(role: Role, *words: str) -> ChatMessage:
    return ChatMessage(role, " ".join(words))


def shown(*messages: ChatMessage, reply: int = 32, fitter: Fitter | None = None) -> list[str]:
    """The messages' contents that the model is shown, in order."""
    tokens = (fitter or Fitter(Characters(), CONTEXT)).fit(Prompt(messages, reply))
    assert len(tokens) <= CONTEXT - min(reply, CONTEXT // 2)
    return "".join(map(chr, tokens)).rstrip("\0").split("\0" * MARKUP)[1:]


def letters(count: int) -> str:
    """Every three characters of it differ: 000001002..."""
    return "".join(f"{i:03}" for i in range(count // 3 + 1))[:count]


def test_the_oldest_turns_are_forgotten_before_the_next_one_begins() -> None:
    """Half of the memory goes at once, where the turns before the newest message exceed it; however long that one
    is, and however much the context would hold. The cut stays where it is."""
    fitter = Fitter(Characters(), CONTEXT, memory=45)
    system, asked = said("system", "Be brief."), said("user", letters(90))
    turns = [said("user" if i % 2 == 0 else "assistant", f"{i}{i}") for i in range(6)]
    assert shown(system, *turns[:4], asked, fitter=fitter)[1:] == ["00", "11", "22", "33", letters(90)]
    assert shown(system, *turns[:6], asked, fitter=fitter)[1:] == ["44", "55", letters(90)]
    assert shown(system, *turns[:6], asked, fitter=fitter)[1:] == ["44", "55", letters(90)]


def test_what_fits_is_left_alone() -> None:
    """To the last token."""
    room = CONTEXT - 32 - OPENING - 2 * MARKUP
    system, newest = "s" * 100, letters(room - 100)
    assert shown(said("system", system), said("user", newest)) == [system, newest]


def test_a_newest_message_that_is_too_long_keeps_its_end() -> None:
    """All of the system message, and as much of the end as there is room for, within a step."""
    system = "Be brief."
    text = letters(3000)
    first, newest = shown(said("system", system), said("user", text))
    assert first == system
    assert text.endswith(newest)
    room = CONTEXT - 32 - OPENING - 2 * MARKUP - len(system)
    assert room - CONTEXT // 16 < len(newest) <= room


def test_system_messages_that_are_too_long_keep_their_beginning() -> None:
    """Three eighths of the context at most, and the question is whole."""
    text = letters(3000)
    system, newest = shown(said("system", text), said("user", "Why?"))
    assert text.startswith(system) and newest == "Why?"
    assert CONTEXT // 4 < len(system) <= 3 * CONTEXT // 8


def test_both_too_long() -> None:
    """Each has its part."""
    rules, text = letters(3000), letters(2000)
    system, newest = shown(said("system", rules), said("user", text))
    assert rules.startswith(system) and text.endswith(newest)
    assert len(system) > CONTEXT // 4 and len(newest) > CONTEXT // 4


def test_several_system_messages_are_cut_as_one() -> None:
    """The first ones stay, what does not fit goes with its markup."""
    many = [said("system", f"rule {i:04}") for i in range(200)]
    *system, newest = shown(*many, said("user", "Why?"))
    assert newest == "Why?"
    assert system[:3] == ["rule 0000", "rule 0001", "rule 0002"]
    assert sum(len(text) + MARKUP for text in system) <= 3 * CONTEXT // 8


def test_system_messages_without_any_turn() -> None:
    """A reply may be asked for before anything was said."""
    text = letters(3000)
    (system,) = shown(said("system", text))
    assert text.startswith(system) and system


def test_the_conversation_keeps_what_room_the_cut_system_leaves() -> None:
    """Long instructions are no reason to forget everything that was said."""
    past = (said("user", "My name is Ada."), said("assistant", "Hello Ada."))
    _, *turns = shown(said("system", letters(3000)), *past, said("user", "Who am I?"))
    assert turns == ["My name is Ada.", "Hello Ada.", "Who am I?"]


def test_the_oldest_turns_go_first_and_the_rest_begins_with_the_user() -> None:
    """Half of the room is freed at once."""
    past = [said(role, f"line {i:03} {role}") for i in range(40) for role in ("user", "assistant")]
    system, *turns = shown(said("system", "Be brief."), *past, said("user", "Why?"))
    assert system == "Be brief." and turns[-1] == "Why?" and turns[-2] == "line 039 assistant"
    assert turns[0].endswith("user")
    assert sum(map(len, turns)) < CONTEXT // 2


def test_the_cut_stays_while_the_conversation_grows() -> None:
    """Else every turn would compute its whole prompt again."""
    fitter = Fitter(Characters(), CONTEXT)
    past: list[ChatMessage] = []
    firsts = []
    for i in range(30):
        past.append(said("user", f"question {i}"))
        firsts.append(shown(said("system", "Be brief."), *past, fitter=fitter)[1])
        past.append(said("assistant", f"answer {i}"))
    moves = sum(one != other for one, other in pairwise(firsts))
    assert 1 <= moves <= 8, firsts


def test_another_conversation_forgets_the_cut() -> None:
    """A slot may be given another prompt altogether."""
    fitter = Fitter(Characters(), CONTEXT)
    past = [said(role, f"line {i:03}") for i in range(40) for role in ("user", "assistant")]
    shown(*past, said("user", "Why?"), fitter=fitter)
    assert shown(said("user", "Hello."), said("assistant", "Hi."), said("user", "Why?"), fitter=fitter) == [
        "Hello.",
        "Hi.",
        "Why?",
    ]


def test_the_beginning_of_a_message_that_grows_is_cut_in_steps() -> None:
    """Speech comes word by word: a beginning that moved each time would be computed anew each time."""
    text = letters(600)
    beginnings = {shown(said("user", text[:size]))[0][:3] for size in range(300, 600)}
    assert len(beginnings) <= 300 // (CONTEXT // 16) + 1


def test_a_warm_up_and_the_turn_after_it_cut_the_system_alike() -> None:
    """Whatever room their replies ask for."""
    rules = said("system", letters(3000))
    warm = shown(rules, said("user", ""), reply=1)[0]
    assert shown(rules, said("user", "Why?"), reply=64)[0] == warm
    assert shown(rules, said("user", letters(3000)), reply=64)[0] == warm


def test_a_cut_inside_a_character_leaves_nothing_of_it() -> None:
    """Neither at the end of the system message nor at the beginning of the newest."""

    class Halves(Characters):
        """A bird is two tokens; one alone is broken."""

        def split(self, text: str) -> list[int]:
            return [t for c in text for t in ((1, 2) if c == "🦜" else (ord(c),))]

        def text(self, tokens: Sequence[int]) -> str:
            joined = "".join(map(chr, tokens)).replace("\1\2", "🦜")
            return joined.replace("\1", "\N{REPLACEMENT CHARACTER}").replace("\2", "\N{REPLACEMENT CHARACTER}")

    for shift in ("", "x"):
        fitter = Fitter(Halves(), CONTEXT)
        prompt = Prompt((said("system", shift + "🦜" * 300), said("user", "🦜" * 300 + shift)), 32)
        text = Halves().text(fitter.fit(prompt))
        assert "\N{REPLACEMENT CHARACTER}" not in text and "🦜" in text


def test_a_template_that_fills_the_context_is_an_error() -> None:
    """Nothing of the conversation could be shown."""
    with pytest.raises(EngineError, match=r"raise engines\.context_tokens"):
        Fitter(Characters(opening=300), CONTEXT).fit(Prompt((said("user", "Why?"),), 32))


messages = st.lists(
    st.builds(
        ChatMessage,
        st.sampled_from(("system", "user", "assistant")),
        st.text(st.sampled_from("ab c"), max_size=400),
    ),
    min_size=1,
    max_size=12,
)


@given(messages, st.integers(1, 1000), st.sampled_from((64, 256, 300)))
def test_any_conversation_fits(conversation: list[ChatMessage], reply: int, context: int) -> None:
    """And is shown as it is where that fits too."""
    tokens = Fitter(Characters(), context).fit(Prompt(tuple(conversation), reply))
    room = context - min(reply, context // 2)
    assert len(tokens) <= room
    whole = Characters().encode(conversation)
    assert (tokens == whole) == (len(whole) <= room)
