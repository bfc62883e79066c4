"""What a caller sends, and which turn belongs to which of its questions."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from arrivals import Call, Question
from caller import PACKET_S, RATE_HZ, Asked, became, noise, voice_of

from voicepipe.core.budget import Ledger
from voicepipe.core.events import RefusedFor, TurnRecord, Verdict

SIZE = round(PACKET_S * RATE_HZ)


def answered(speech_end: float, sent: float | None, *, refused: bool = False) -> TurnRecord:
    ledger = Ledger(1, 0.2, 0.002)
    ledger.on_soft_end(speech_end, speech_end + 0.03)
    ledger.on_commit(speech_end + 0.1)
    if sent is not None:
        ledger.on_sent(sent)
    if refused:
        ledger.on_refused(RefusedFor.LATE_COMMIT, speech_end + 0.2)
    return ledger.record()


def test_noise_lasts_from_the_beginning_to_the_end_of_a_question() -> None:
    question = Question(1.0, 1.1)
    loud = [any(noise(question, 1.0 + n * PACKET_S)) for n in range(-2, 7)]
    assert loud == [False, False, True, True, True, True, True, False, False]


def test_a_recording_is_sent_whole_and_in_its_place() -> None:
    """A packet that holds its beginning or its end holds silence beside it."""
    clip = np.full(SIZE + 10, 0.5, np.float32)
    voice = voice_of([np.zeros(1, np.float32), clip])
    question = Question(1.0, 1.0 + len(clip) / RATE_HZ, 1)
    sent = b"".join(voice(question, 1.0 + n * PACKET_S - PACKET_S / 2) for n in range(3))
    samples = np.frombuffer(sent, "<i2")
    assert np.flatnonzero(samples).tolist() == list(range(SIZE // 2, SIZE // 2 + len(clip)))
    assert len(samples) == 3 * SIZE


def test_a_turn_belongs_to_the_question_that_ended_with_it() -> None:
    """On the crowd's clock; the gap counts from the instant at which the question was to end."""
    call = Call(0.0, 9.0, (Question(1.0, 2.0), Question(5.0, 6.0)))
    first, second = became(7, call, [answered(102.03, 102.15)], 100.0)
    assert (first.call, first.kept, first.counts) == (7, True, True)
    assert first.felt_s == pytest.approx(0.152)
    assert (second.record, second.felt_s, second.kept, second.counts) == (None, inf, False, True)


def test_all_but_what_the_caller_gave_up_counts() -> None:
    question = Question(0.0, 2.0)
    late, unanswered = answered(2.0, 2.4), answered(2.0, None)
    refused = answered(2.0, None, refused=True)
    assert (late.verdict, unanswered.verdict) == (Verdict.MISSED, Verdict.INTERRUPTED)
    assert [Asked(0, question, "", one).counts for one in (late, unanswered, refused, None)] == [
        True,
        False,
        True,
        True,
    ]
    assert not Asked(0, question, "burst").counts
