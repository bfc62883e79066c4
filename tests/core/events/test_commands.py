"""Commands are data."""

from __future__ import annotations

import dataclasses
from typing import get_args

import pytest

from voicepipe.core.events import ReplyAudio, Submit, TurnCommand, Way, Work, WorkClass, WorkKind


@pytest.mark.parametrize("kind", get_args(TurnCommand), ids=lambda kind: kind.__name__)
def test_commands_are_frozen_values(kind: type) -> None:
    """A command is data: comparable, and nobody can change it on its way."""
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen and kind.__dataclass_params__.eq  # type: ignore[attr-defined]
    assert hasattr(kind, "__slots__")


def test_audio_is_not_spelled_out_in_logs() -> None:
    """A reply's samples never reach a log through a repr."""
    assert "pcm" not in repr(ReplyAudio(1, 0, b"\x01\x02"))


def test_how_far_a_reply_has_come_makes_no_other_command_of_it() -> None:
    """It tells what a step may take, not what is to be done."""
    work = Work(7, "s1", 2, 3, 1, WorkKind.THINK, WorkClass.SPECULATION)
    assert Submit(work, way=Way(read_s=0.1)) == Submit(work)
