"""What a reply has cost in tokens is told once, and of the reply that is released."""

from __future__ import annotations

from dataclasses import replace

from voicepipe.core.events import Work, WorkClass, WorkKind
from voicepipe.engines.base import LlmStep
from voicepipe.tally import Tally
from voicepipe.wire.messages import ReplyMade

FIRST = Work(1, "s", 3, 2, 0, WorkKind.THINK, WorkClass.STARTED)


def test_steps_add_up_and_are_told_once() -> None:
    tally = Tally()
    assert tally.take() is None
    tally.begin(FIRST, 41.6)
    tally.on_step(FIRST, LlmStep("", 0, prefilled=40))
    tally.on_step(replace(FIRST, id=2), LlmStep("One", 3))
    tally.on_step(replace(FIRST, id=3), LlmStep(" two.", 2, finish="length"))
    assert tally.take() == ReplyMade(3, 2, 42, 5, cut=True)
    assert tally.take() is None


def test_a_reply_that_was_dropped_does_not_count() -> None:
    """Nor does a step of it that ends late."""
    tally = Tally()
    tally.begin(FIRST, 40)
    tally.on_step(FIRST, LlmStep("One", 3))
    again = replace(FIRST, id=2, revision=1)
    tally.begin(again, 50)
    tally.on_step(FIRST, LlmStep("One", 3))
    tally.on_step(again, LlmStep("Two.", 1, finish="stop"))
    assert tally.take() == ReplyMade(3, 2, 50, 1, cut=False)
