"""Records and gaps as the client sees them, with literal times."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.errors import Refused
from voicepipe.wire.native import (
    AudioFrame,
    Blame,
    Draining,
    ReplyDone,
    ReplyInterrupted,
    ReplyText,
    Speculation,
    SpeechStarted,
    Stages,
    StageTimes,
    TranscriptFinal,
    TranscriptPartial,
    TurnCommitted,
    TurnEnded,
    TurnReopened,
    Verdict,
)
from voicepipe_client.events import Disconnected, Event, Reconnected
from voicepipe_client.player import Player
from voicepipe_client.source import OutFrame
from voicepipe_client.turns import TurnRecord, Turns, refused_summary, spread, summarise

RATE = 16_000
LOUD = b"\x00\x10" * 320
STAGES = Stages(StageTimes(96.0, 0.0), StageTimes(), StageTimes(), StageTimes(), StageTimes(0.0, 4.0))


def ended(turn: int, verdict: Verdict = "met", blame: Blame | None = None) -> TurnEnded:
    return TurnEnded(turn, verdict, 100.0, 12.5, STAGES, Speculation(True, 1, 300.0, 0.0), blame)


class Scene:
    """A `Turns` with its player, fed line by line."""

    def __init__(self, *, labelled: bool = True) -> None:
        self.player = Player(RATE)
        self.turns = Turns(self.player, labelled=labelled, now=0.0)

    def say(self, now: float, *, voiced: bool = True, clip: int | None = 0, goes_on: bool = False) -> None:
        self.turns.on_sent(OutFrame(b"", voiced, clip, goes_on), now)

    def hush(self, *instants: float) -> None:
        for now in instants:
            self.turns.on_sent(OutFrame(b"", voiced=False, clip=None), now)

    def hear(self, now: float, *events: Event) -> None:
        for event in events:
            self.turns.on_event(event, now)


def question(scene: Scene) -> None:
    """Speech until 1.00, committed at 1.10 as turn 1 in epoch 1."""
    scene.hear(0.3, SpeechStarted(1))
    scene.say(0.98)
    scene.hear(0.99, TranscriptPartial(1, "what", "time"))
    scene.say(1.00)
    scene.hush(1.02, 1.04, 1.06, 1.08)
    scene.hear(1.10, TranscriptFinal(1, "What time?"), TurnCommitted(1, 1))


def answer(scene: Scene, *, now: float = 1.12, epoch: int = 1) -> None:
    """20 ms of sound from `now` on, all of it sent."""
    scene.hear(now, ReplyText(1, epoch, "It is "), ReplyText(1, epoch, "noon."))
    scene.hear(now, AudioFrame(epoch, 0, LOUD), ReplyDone(1, epoch, 320))


def test_a_turn_as_printed() -> None:
    scene = Scene()
    question(scene)
    answer(scene)
    scene.hear(1.2, ended(1, "missed", Blame("llm", "wait", 7.5)))
    zero = {"wait_ms": 0.0, "service_ms": 0.0}
    assert scene.turns.records[0].as_dict() == {
        "turn": 1,
        "transcript": "What time?",
        "reply": "It is noon.",
        "verdict": "missed",
        "reason": None,
        "felt_ms": 120.0,
        "measured": True,
        "felt_estimate_ms": 100.0,
        "system_ms": 12.5,
        "stages": {
            "endpoint": {"wait_ms": 96.0, "service_ms": 0.0},
            "asr": zero,
            "llm": zero,
            "tts": zero,
            "send": {"wait_ms": 0.0, "service_ms": 4.0},
        },
        "speculation": {"hit": True, "attempts": 1, "saved_ms": 300.0, "wasted_ms": 0.0},
        "blame": {"stage": "llm", "kind": "wait", "ms": 7.5},
        "cutoff": False,
    }


def test_the_felt_gap_ends_when_content_sounds() -> None:
    """Half a second of silence in front of the words is felt, although it has long arrived."""
    scene = Scene()
    question(scene)
    scene.hear(1.12, AudioFrame(1, 0, bytes(16_000)), AudioFrame(1, 8000, LOUD))
    scene.hear(2.0, ended(1))
    record = scene.turns.records[0]
    assert record.felt_ms == pytest.approx(620.0)
    assert record.received_ms == pytest.approx(120.0)


def test_without_content_there_is_no_gap() -> None:
    scene = Scene()
    question(scene)
    scene.hear(1.12, AudioFrame(1, 0, bytes(640)))
    scene.hear(1.3, ended(1, "failed"))
    assert scene.turns.records[0].felt_ms is None


def test_a_reopened_turn_is_measured_at_its_last_commit() -> None:
    """The first answer was taken back: neither its text nor its sound counts."""
    scene = Scene()
    question(scene)
    answer(scene)
    scene.hear(1.14, TurnReopened(1, 1))
    scene.say(1.5)
    scene.hush(1.52, 1.54, 1.56, 1.58)
    scene.hear(1.6, TranscriptFinal(1, "What time is it?"), TurnCommitted(1, 3))
    scene.hear(1.61, AudioFrame(1, 320, LOUD))
    scene.hear(1.65, ReplyText(1, 1, " And so"), ReplyText(1, 3, "Noon."), AudioFrame(3, 0, LOUD))
    scene.hear(1.9, ended(1))
    record = scene.turns.records[0]
    assert record.felt_ms == pytest.approx(150.0)
    assert (record.transcript, record.reply) == ("What time is it?", "Noon.")


def test_content_heard_before_a_barge_in_counts() -> None:
    scene = Scene()
    question(scene)
    answer(scene)
    scene.hear(1.13, ReplyInterrupted(1, 1, 10.0), ended(1))
    assert scene.turns.records[0].felt_ms == pytest.approx(120.0)


def test_content_cut_before_it_sounds_does_not() -> None:
    scene = Scene()
    question(scene)
    scene.hear(1.12, AudioFrame(1, 0, bytes(16_000)), AudioFrame(1, 8000, LOUD))
    scene.hear(1.2, ReplyInterrupted(1, 1, 80.0), ended(1, "interrupted"))
    assert scene.turns.records[0].felt_ms is None


def test_a_commit_in_a_pause_is_a_false_cutoff() -> None:
    """The reply was quick after the pause, and late or early for nobody: its speaker had not finished."""
    scene = Scene()
    scene.hear(0.3, SpeechStarted(1))
    scene.say(1.00, goes_on=True)
    for now in (1.02, 1.04, 1.06, 1.08):
        scene.say(now, voiced=False, goes_on=True)
    scene.hear(1.10, TranscriptFinal(1, "What"), TurnCommitted(1, 1))
    answer(scene)
    scene.say(1.3)
    scene.hush(1.32, 1.34, 1.36, 1.38)
    scene.hear(1.39, ReplyInterrupted(1, 1, 20.0), ended(1))
    scene.hear(1.40, TurnCommitted(2, 3), AudioFrame(3, 0, LOUD), ended(2))
    cut, whole = scene.turns.records
    assert (cut.cutoff, cut.felt_ms, cut.received_ms) == (True, None, None)
    assert (whole.cutoff, whole.felt_ms) == (False, pytest.approx(100.0))


def test_a_commit_that_nobody_can_have_decided_yet_is_about_an_earlier_pause() -> None:
    """It was on its way while the recording's last words went out: 20 ms of silence decide nothing."""
    scene = Scene()
    scene.say(1.00)
    scene.hush(1.02)
    scene.hear(1.022, TurnCommitted(1, 1), AudioFrame(1, 0, LOUD), ended(1))
    (record,) = scene.turns.records
    assert (record.cutoff, record.felt_ms) == (True, None)


def test_no_gap_is_shorter_than_what_the_server_took_after_its_commit() -> None:
    """Frames that left in a burst after the commit: content 5 ms after them, 12.5 ms after the commit."""
    scene = Scene()
    scene.say(1.00)
    scene.hush(1.001, 1.002, 1.003)
    scene.hear(1.005, TurnCommitted(1, 1), AudioFrame(1, 0, LOUD), ended(1))
    (record,) = scene.turns.records
    assert (record.cutoff, record.felt_ms) == (True, None)


def test_a_reopened_cutoff_is_none_at_its_last_commit() -> None:
    """It was mended: what is measured is the reply that stayed."""
    scene = Scene()
    scene.say(1.00, goes_on=True)
    scene.hear(1.10, TurnCommitted(1, 1), TurnReopened(1, 1))
    scene.say(1.5)
    scene.hush(1.52, 1.54)
    scene.hear(1.6, TurnCommitted(1, 3), AudioFrame(3, 0, LOUD), ended(1))
    (record,) = scene.turns.records
    assert (record.cutoff, record.felt_ms) == (False, pytest.approx(100.0))


def test_without_labels_nothing_is_a_cutoff() -> None:
    scene = Scene(labelled=False)
    scene.say(1.0, voiced=False, clip=None)
    scene.hear(1.001, TurnCommitted(1, 1), AudioFrame(1, 0, LOUD), ended(1))
    assert not scene.turns.records[0].cutoff


def test_without_labels_the_servers_estimate_stands_in() -> None:
    scene = Scene(labelled=False)
    scene.hush(1.0)
    scene.hear(1.1, TurnCommitted(1, 1))
    answer(scene)
    scene.hear(1.2, ended(1))
    (record,) = scene.turns.records
    assert (record.felt_ms, record.felt_estimate_ms, record.measured) == (100.0, 100.0, False)
    assert record.received_ms is None


def test_the_recording_of_a_turn() -> None:
    scene = Scene()
    scene.say(1.0, clip=4)
    scene.hear(1.1, TurnCommitted(1, 1), ended(1))
    assert scene.turns.records[0].clip == 4


# --- when to go on --------------------------------------------------------------------------------


def test_settled_when_the_answer_has_been_played() -> None:
    scene = Scene()
    question(scene)
    answer(scene, now=1.20)
    assert not scene.turns.settled(9.0)  # no verdict yet
    scene.hear(1.21, ended(1))
    assert not scene.turns.settled(1.215)  # still sounding
    assert scene.turns.settled(1.25)


def test_an_answer_to_half_a_recording_settles_nothing() -> None:
    """Turn 1 was committed in a pause; the recording's end belongs to a turn that is to come."""
    scene = Scene()
    question(scene)
    answer(scene)
    scene.say(1.3)
    scene.hush(1.32)
    scene.hear(1.33, ended(1))
    assert not scene.turns.settled(1.4)
    assert not scene.turns.settled(4.32)
    scene.hear(1.41, TurnCommitted(2, 3), ended(2, "empty"))
    assert scene.turns.settled(1.5)


def test_silence_is_left_soon() -> None:
    scene = Scene()
    scene.say(1.0, voiced=False)
    scene.hush(1.02)
    assert not scene.turns.settled(3.99)
    assert scene.turns.settled(4.0)


def test_speech_that_nobody_seems_to_have_heard_is_given_more_time() -> None:
    """A server under load may be far behind."""
    scene = Scene()
    scene.say(1.0)
    scene.hush(1.02)
    assert not scene.turns.settled(20.99)
    assert scene.turns.settled(21.0)
    assert scene.turns.heard_clips == frozenset()


def test_a_sign_of_hearing_that_comes_to_nothing_ends_the_extra_time() -> None:
    """Speech began, without the number of a turn, and that was all."""
    scene = Scene()
    scene.say(1.0)
    scene.hush(1.02)
    scene.hear(9.0, SpeechStarted())
    assert not scene.turns.settled(11.99)
    assert scene.turns.settled(12.0)
    assert scene.turns.heard_clips == {0}


def test_each_recording_has_its_own_sign_of_hearing() -> None:
    """What was heard of the first says nothing of the second."""
    scene = Scene()
    question(scene)
    scene.hear(1.2, ended(1))
    scene.say(2.0, clip=1)
    scene.hush(2.02)
    assert not scene.turns.settled(21.9)
    assert scene.turns.heard_clips == {0}
    scene.hear(21.9, SpeechStarted(2))
    assert scene.turns.heard_clips == {0, 1}
    assert not scene.turns.settled(41.8)


def test_a_recording_is_not_settled_while_it_plays() -> None:
    scene = Scene()
    scene.say(1.0, voiced=False)
    assert not scene.turns.settled(60.0)


def test_an_open_turn_is_waited_for_within_a_bound() -> None:
    scene = Scene()
    question(scene)
    assert not scene.turns.settled(21.0)
    assert scene.turns.settled(21.2)


def test_a_long_recording_in_which_nothing_new_is_heard_is_waited_for_from_its_end() -> None:
    """The server says a word once, and then hears the same for half a minute."""
    scene = Scene()
    scene.say(1.0)
    scene.hear(1.1, SpeechStarted(turn=1))
    scene.say(31.0)
    scene.hush(31.02)
    assert not scene.turns.settled(31.1)
    assert scene.turns.settled(51.0)


def test_a_late_word_about_an_ended_turn_opens_nothing() -> None:
    scene = Scene()
    question(scene)
    scene.hear(1.2, ended(1))
    scene.hear(1.21, TranscriptFinal(1, "What time?"))
    assert scene.turns.settled(1.3)


# --- summaries ------------------------------------------------------------------------------------


def record(felt_ms: float | None, verdict: Verdict = "met") -> TurnRecord:
    return TurnRecord(1, "", "", verdict, felt_ms, 10.0, STAGES, ended(1).speculation, None)


NONE_YET = dict.fromkeys(get_args(Verdict), 0)


def test_gaps_are_those_of_answered_turns_and_the_others_are_counted() -> None:
    """A failed turn has no gap: it makes none infinite, and is not lost either."""
    summary = summarise([record(100.0), record(None, "failed"), record(300.0, "missed"), record(400.0, "masked")])
    assert (summary["turns"], summary["answered"], summary["unanswered"]) == (4, 3, 1)
    assert summary["verdicts"] == NONE_YET | {"met": 1, "failed": 1, "missed": 1, "masked": 1}
    assert summary["answered_felt_ms"] == {"p50": 300.0, "p95": 400.0, "p99": 400.0, "min": 100.0, "max": 400.0}


def test_a_false_cutoff_is_no_hit() -> None:
    """Whatever its verdict: counted by itself, and no answer."""
    cut = dataclasses.replace(record(None), cutoff=True)
    summary = summarise([record(100.0), cut])
    assert (summary["turns"], summary["answered"], summary["cut_off"]) == (2, 1, 1)
    assert summary["verdicts"] == NONE_YET | {"met": 1}
    assert summary["answered_felt_ms"] == dict.fromkeys(["p50", "p95", "p99", "min", "max"], 100.0)


def test_an_empty_turn_is_owed_nothing() -> None:
    summary = summarise([record(100.0), record(None, "empty")])
    assert (summary["turns"], summary["unanswered"], summary["empty"]) == (2, 0, 1)


def test_no_turn_at_all() -> None:
    """All the fields are there, whoever reads them."""
    nothing = dict.fromkeys(["p50", "p95", "p99", "min", "max"], None)
    assert summarise([]) == {
        "turns": 0,
        "answered": 0,
        "cut_off": 0,
        "unanswered": 0,
        "empty": 0,
        "verdicts": NONE_YET,
        "answered_felt_ms": nothing,
        "answered_system_ms": nothing,
    }


@given(
    st.lists(
        st.builds(
            lambda verdict, felt_ms, cutoff: dataclasses.replace(record(felt_ms, verdict), cutoff=cutoff),
            st.sampled_from(get_args(Verdict)),
            st.none() | st.floats(0, 1000),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_every_turn_is_counted_once(records: list[TurnRecord]) -> None:
    """Whatever verdict comes with whatever gap."""
    summary: dict[str, Any] = summarise(records)
    assert sum(summary[name] for name in ("answered", "cut_off", "unanswered", "empty")) == summary["turns"]
    assert sum(summary["verdicts"].values()) == summary["turns"] - summary["cut_off"]


def test_spread_by_nearest_rank() -> None:
    assert spread([float(n) for n in range(1, 101)]) == {
        "p50": 50.0,
        "p95": 95.0,
        "p99": 99.0,
        "min": 1.0,
        "max": 100.0,
    }


def test_refused() -> None:
    assert refused_summary(Refused("capacity", 1500)) == {"refused": {"reason": "capacity", "retry_after_ms": 1500}}


GONE = Disconnected("connection lost: 1006", 1006)


def test_a_turn_that_the_connection_took_along_has_no_end_and_is_counted() -> None:
    """Nobody waits for it; what comes later of it opens nothing anew. The next turn is recorded as usual."""
    scene = Scene()
    question(scene)
    scene.hear(1.2, GONE)
    assert scene.turns.open_turns == 1 and scene.turns.records == []
    scene.hear(2.0, Reconnected(resumed=True, away_s=0.8, tries=1))
    scene.hear(3.0, SpeechStarted(2), TurnCommitted(2, 4), ended(2))
    assert [record.turn for record in scene.turns.records] == [2]
    assert scene.turns.open_turns == 1 and scene.turns.settled(30.0)


def test_a_new_conversation_counts_its_turns_anew() -> None:
    """A server that has forgotten the old one begins with turn 1 and low epochs: both are heard."""
    scene = Scene()
    question(scene)
    scene.hear(1.2, TurnCommitted(1, 9), AudioFrame(9, 0, LOUD), ended(1))
    scene.hear(2.0, GONE, Reconnected(resumed=False, away_s=0.8, tries=1))
    scene.hear(3.0, TurnCommitted(1, 1), AudioFrame(1, 0, LOUD), ended(1))
    assert [record.turn for record in scene.turns.records] == [1, 1]
    assert scene.player.first_sound(1) is not None


def test_an_answer_that_a_drain_has_cut_is_left_unanswered() -> None:
    """It has its verdict, and its listener not its answer."""
    scene = Scene()
    question(scene)
    answer(scene)
    scene.hear(1.13, Draining(100.0), ReplyInterrupted(1, 1, 10.0), ended(1))
    assert not scene.turns.settled(1.2), "its connection is about to be closed, and that is how the talk ends"
    assert scene.turns.open_turns == 1
