"""What is asked of a device: kinds that know their stage, classes that are ordered, chunks that cannot change."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from voicepipe.core.events import Load, Offer, Stage, Way, Work, WorkClass, WorkKind

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


def test_a_work_cannot_be_changed() -> None:
    """Promotion makes a new one."""
    with pytest.raises(FrozenInstanceError):
        WORK.epoch = 9  # type: ignore[misc]


def test_what_is_known_of_its_size_makes_no_other_work_of_it() -> None:
    """It is declared after the work was asked for; whoever asked finds it again all the same."""
    sized = replace(WORK, bound_s=0.1, remaining_s=0.2, load=Load("llm", 1.0), since=1.0)
    assert replace(sized, larger=(Offer(Load("llm", 2.0), 0.2),)) == WORK
    assert replace(WORK, deadline=1.2) != WORK


def test_a_step_is_reading_until_the_first_token_has_come() -> None:
    """Seconds of service, added up."""
    read = Way().after(0.2).after(0.1)
    assert (read.read_s, read.thought_s) == (pytest.approx(0.3), 0.0)
    thought = replace(read, has_token=True).after(0.05)
    assert (thought.read_s, thought.thought_s) == (read.read_s, 0.05)


def test_a_work_is_priced_and_stays_the_same() -> None:
    """In every other field; it is still equal to the one that was asked for."""
    offered = replace(WORK, deadline=5.0, larger=(Offer(Load("model", 4), 0.2),), since=1.0)
    load = Load("model", 2, 40, "decode")
    priced = offered.priced(load, 0.03, 0.02, 0.1)
    assert priced == offered
    assert priced.larger == offered.larger and priced.since == 1.0 and priced.deadline == 5.0
    assert (priced.load, priced.bound_s, priced.expected_s, priced.remaining_s) == (load, 0.03, 0.02, 0.1)


def test_a_step_goes_to_reading_until_there_is_a_token() -> None:
    way = Way(clause_characters=5).after(0.1).after(0.2)
    assert way == Way(read_s=0.1 + 0.2, clause_characters=5)
    assert replace(way, has_token=True).after(0.4) == replace(way, has_token=True, thought_s=0.4)
