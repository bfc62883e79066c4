"""The vocabulary: values that cannot change, kinds that know their stage, classes that are ordered."""

from __future__ import annotations

import dataclasses
from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from voicepipe.core import events
from voicepipe.core.events import Stage, Timing, TurnCommand, Verdict, Work, WorkClass, WorkKind

WORK = Work(7, "s1", 2, 3, 1, WorkKind.THINK, WorkClass.SPECULATION)


def test_every_kind_of_work_belongs_to_one_stage() -> None:
    """A ledger can put each chunk somewhere; sending is the only stage without device work."""
    stages = {kind: kind.stage for kind in WorkKind}
    assert stages == {
        WorkKind.HEAR: Stage.ENDPOINT,
        WorkKind.PARTIAL: Stage.ASR,
        WorkKind.FINAL: Stage.ASR,
        WorkKind.SECOND_PASS: Stage.ASR,
        WorkKind.JUDGE: Stage.ENDPOINT,
        WorkKind.WARM: Stage.LLM,
        WorkKind.THINK: Stage.LLM,
        WorkKind.SPEAK: Stage.TTS,
        WorkKind.GENERATE: Stage.LLM,
    }


def test_stages_are_named_in_the_order_of_the_critical_path() -> None:
    """The order is part of the wire's vocabulary."""
    assert [stage.value for stage in Stage] == ["endpoint", "asr", "llm", "tts", "send"]


def test_verdicts_are_those_of_the_wire() -> None:
    """The first that fits wins, so their order counts."""
    assert [verdict.value for verdict in Verdict] == [
        "failed",
        "refused",
        "empty",
        "interrupted",
        "masked",
        "missed",
        "degraded",
        "met",
    ]


def test_started_turns_go_before_all_else() -> None:
    """Classes compare by urgency, most urgent first."""
    assert sorted(WorkClass) == [
        WorkClass.STARTED,
        WorkClass.ASR,
        WorkClass.SPECULATION,
        WorkClass.AHEAD,
        WorkClass.BACKGROUND,
    ]


def test_a_work_is_known_by_its_session_and_number() -> None:
    """Ids are unique within a session only."""
    assert WORK.key == ("s1", 7)


def test_a_timing_splits_into_wait_and_service() -> None:
    """Both in seconds, and together all the time from the queue to the end."""
    timing = Timing(queued=1.0, started=1.5, finished=3.5)
    assert (timing.wait_s, timing.service_s) == (0.5, 2.0)


@pytest.mark.parametrize("kind", get_args(TurnCommand), ids=lambda kind: kind.__name__)
def test_commands_are_frozen_values(kind: type) -> None:
    """A command is data: comparable, and nobody can change it on its way."""
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen and kind.__dataclass_params__.eq  # type: ignore[attr-defined]
    assert hasattr(kind, "__slots__")


def test_a_work_cannot_be_changed() -> None:
    """Promotion makes a new one."""
    with pytest.raises(FrozenInstanceError):
        WORK.epoch = 9  # type: ignore[misc]


def test_audio_is_not_spelled_out_in_logs() -> None:
    """A reply's samples never reach a log through a repr."""
    assert "pcm" not in repr(events.ReplyAudio(1, 0, b"\x01\x02"))
