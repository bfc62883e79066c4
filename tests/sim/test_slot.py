"""A slot reads what is new, and remembers what it has read."""

from __future__ import annotations

from voicepipe.core.events import Line, Think
from voicepipe.sim.replies import Reply
from voicepipe.sim.service import MODEL, SMALL, Manner
from voicepipe.sim.slot import Generation, Slot

MANNER = Manner(
    read_tokens=16, write_tokens=2, tokens_per_word=1.0, template_tokens=2, instruction_tokens=10, memory_tokens=0
)
SYSTEM = Line("system", "whatever it says")
REPLY = Reply("One two three. Four.")


def prompt(*said: str, user: bool = True) -> tuple[Line, ...]:
    lines = [Line("user" if index % 2 == 0 else "assistant", text) for index, text in enumerate(said)]
    return (SYSTEM, *lines)


def run(generation: Generation) -> tuple[list[tuple[str, float, float]], str]:
    """((variant, units, context) of each step, the text)"""
    steps, text, finished = [], "", False
    while not finished:
        size = generation.size()
        piece, finished = generation.step()
        steps.append((size.variant, size.units, size.context))
        text += piece
    return steps, text


def test_a_reply_is_read_in_chunks_and_written_in_steps() -> None:
    """10 of the instructions, 20 words, what stands around the line, and the template's end."""
    slot = Slot(MANNER)
    steps, text = run(slot.begin(Think(prompt(" ".join(["word"] * 20)), 60), REPLY))
    assert steps == [
        ("prefill", 16, 0),
        ("prefill", 16, 16),
        ("prefill", 2, 32),
        ("decode", 2, 34),
        ("decode", 2, 36),
    ]
    assert text == REPLY.text


def test_what_has_been_read_ahead_is_not_read_again() -> None:
    slot = Slot(MANNER)
    run(slot.begin(Think(prompt("What is this"), 1), REPLY))
    steps, _ = run(slot.begin(Think(prompt("What is this river"), 60), REPLY))
    assert steps[0] == ("prefill", 1 + 2 + 2, 10 + 3)  # a word, around the line, the template's end
    assert [variant for variant, *_ in steps] == ["prefill", "decode", "decode"]


def test_a_reply_that_was_said_is_known_when_the_next_question_comes() -> None:
    slot = Slot(MANNER)
    run(slot.begin(Think(prompt("What is this"), 60), REPLY))
    steps, _ = run(slot.begin(Think(prompt("What is this", REPLY.text, "And that"), 60), REPLY))
    assert steps[0][1] == 2 + 2 + 2  # of the new line only
    interrupted, _ = run(slot.begin(Think(prompt("What is this", "One …", "And that"), 60), REPLY))
    assert interrupted[0][1] > 2 + 2 + 2


def test_what_was_never_begun_is_not_known() -> None:
    """A reading that was withdrawn before its first step leaves nothing behind."""
    slot = Slot(MANNER)
    slot.begin(Think(prompt("What is this"), 1), REPLY)
    steps, _ = run(slot.begin(Think(prompt("What is this"), 60), REPLY))
    assert steps[0][:2] == ("prefill", 16)


def test_without_a_memory_all_is_read_each_time() -> None:
    slot = Slot(
        Manner(read_tokens=100, tokens_per_word=1.0, template_tokens=2, instruction_tokens=10, keeps_prefix=False)
    )
    first, _ = run(slot.begin(Think(prompt("What is this"), 60), REPLY))
    again, _ = run(slot.begin(Think(prompt("What is this"), 60), REPLY))
    assert first == again and first[0] == ("prefill", 10 + 3 + 2 + 2, 0)


def test_a_long_history_loses_its_older_half() -> None:
    manner = Manner(
        read_tokens=500, tokens_per_word=1.0, template_tokens=0, instruction_tokens=10, memory_tokens=30
    )
    slot = Slot(manner)
    said = [f"{'word ' * 9}{index}" for index in range(4)]
    steps, _ = run(slot.begin(Think(prompt(*said[:3], "last"), 60), REPLY))
    assert steps[0][1] == 10 + 30 + 1
    steps, _ = run(slot.begin(Think(prompt(*said, "last"), 60), REPLY))
    assert steps[0][1] == 10 + 1 and steps[0][2] == 10  # 15 tokens at most are left: one line


def test_a_reply_ends_with_its_tokens_and_the_smaller_model_has_its_name() -> None:
    slot = Slot(MANNER)
    generation = slot.begin(Think(prompt("Hi"), 3, small=True), REPLY)
    assert generation.size().model == SMALL and slot.begin(Think(prompt("Hi"), 3), REPLY).size().model == MODEL
    steps, _ = run(generation)
    assert sum(units for variant, units, _ in steps if variant == "decode") == 3


def test_reading_ahead_ends_with_the_reading_or_with_a_token() -> None:
    steps, text = run(Slot(MANNER).begin(Think(prompt("Hi"), 1), REPLY))
    assert [variant for variant, *_ in steps] == ["prefill"] and text == ""
    writes = Manner(tokens_per_word=1.0, write_tokens=1, reading_writes=True)
    steps, _ = run(Slot(writes).begin(Think(prompt("Hi"), 1), REPLY))
    assert [variant for variant, *_ in steps] == ["prefill", "decode"]
