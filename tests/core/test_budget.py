"""The ledger: shares that add up, the first verdict that fits, one stage to blame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.budget import SHARES, Ledger
from voicepipe.core.events import Blame, Share, Speculation, Stage, Timing, TurnRecord, Verdict


def ledger() -> Ledger:
    """Turn 1, 200 ms, 10 ms from the socket to the ear."""
    return Ledger(1, budget_s=0.2, downlink_s=0.01)


def rounded(record: TurnRecord) -> dict[Stage, tuple[float, float]]:
    """Stages with a part of the critical path: (wait, service) in ms."""
    return {
        stage: (round(1000 * share.wait_s, 6), round(1000 * share.service_s, 6))
        for stage, share in record.stages.items()
        if share != Share()
    }


def test_the_shares_are_the_whole_budget() -> None:
    """65, 25, 45, 40 and 25 of 200 ms."""
    assert sum(SHARES.values()) == pytest.approx(1.0)
    assert [round(200 * SHARES[stage], 6) for stage in Stage] == [65, 25, 45, 40, 25]


def test_audio_that_was_ready_costs_the_endpoint_and_the_way_out() -> None:
    """Work done before the commit is saved time, not part of the critical path."""
    one = ledger()
    one.on_soft_end(speech_end=10.0, now=10.03)
    one.on_service(Stage.ASR, Timing(10.03, 10.03, 10.05))
    one.on_reply_begun(10.05)
    one.on_service(Stage.LLM, Timing(10.05, 10.05, 10.07))
    one.on_clause(10.07)
    one.on_service(Stage.TTS, Timing(10.07, 10.07, 10.09))
    one.on_audio(10.09)
    one.on_commit(10.13)
    one.on_sent(10.135)
    record = one.record()
    assert record.verdict is Verdict.MET
    assert record.felt_estimate_s == pytest.approx(0.145)
    assert record.system_s == pytest.approx(0.005)
    assert rounded(record) == {Stage.ENDPOINT: (130, 0), Stage.SEND: (15, 0)}
    assert record.speculation.hit and record.speculation.attempts == 1
    assert record.speculation.saved_s == pytest.approx(0.04)
    assert record.blame is None


def test_a_reply_still_in_the_making_at_the_commit_walks_all_stages() -> None:
    """Speech end .. soft end .. final text .. clause .. audio .. sent, service and wait apart."""
    one = ledger()
    one.on_soft_end(10.0, 10.03)
    one.on_service(Stage.ASR, Timing(10.03, 10.04, 10.06))
    one.on_reply_begun(10.06)
    one.on_service(Stage.LLM, Timing(10.06, 10.06, 10.10))
    one.on_commit(10.1)
    one.on_clause(10.10)
    one.on_service(Stage.TTS, Timing(10.1, 10.12, 10.15))
    one.on_audio(10.15)
    one.on_sent(10.15)
    record = one.record()
    assert record.verdict is Verdict.MET
    assert rounded(record) == {
        Stage.ENDPOINT: (30, 0),
        Stage.ASR: (10, 20),
        Stage.LLM: (0, 40),
        Stage.TTS: (20, 30),
        Stage.SEND: (10, 0),
    }
    assert record.speculation.saved_s == pytest.approx(0.04)


def test_a_reply_begun_at_the_commit_has_no_recognition_on_its_path() -> None:
    """The endpoint lasted longer than the decode; nothing was saved, nothing was hit."""
    one = ledger()
    one.on_soft_end(10.0, 10.03)
    one.on_service(Stage.ASR, Timing(10.03, 10.03, 10.05))
    one.on_commit(10.64)
    one.on_reply_begun(10.64)
    one.on_service(Stage.LLM, Timing(10.64, 10.64, 10.70))
    one.on_clause(10.70)
    one.on_service(Stage.TTS, Timing(10.70, 10.70, 10.72))
    one.on_audio(10.72)
    one.on_sent(10.72)
    record = one.record()
    assert rounded(record) == {
        Stage.ENDPOINT: (640, 0),
        Stage.LLM: (0, 60),
        Stage.TTS: (0, 20),
        Stage.SEND: (10, 0),
    }
    assert record.speculation == Speculation(hit=False, attempts=0)


def test_a_typed_turn_begins_at_its_commit() -> None:
    """No speech, so no endpoint: the clock starts when the text comes."""
    one = ledger()
    one.on_commit(5.0)
    one.on_reply_begun(5.0)
    one.on_clause(5.1)
    one.on_audio(5.15)
    one.on_sent(5.15)
    record = one.record()
    assert one.deadline == pytest.approx(5.19)
    assert record.felt_estimate_s == pytest.approx(0.16)
    assert rounded(record)[Stage.LLM] == (100, 0)


def test_the_deadline_is_fixed_at_speech_end() -> None:
    """What remains after the way to the ear is taken off; unknown while the user speaks."""
    one = ledger()
    assert one.deadline is None
    one.on_soft_end(10.0, 10.03)
    assert one.deadline == pytest.approx(10.19)
    one.on_commit(10.12)
    assert one.deadline == pytest.approx(10.19)


def test_speech_cannot_end_after_we_learnt_of_it() -> None:
    """A client's clock that runs ahead does not make a gap shorter."""
    one = ledger()
    one.on_soft_end(speech_end=11.0, now=10.0)
    assert one.deadline == pytest.approx(10.19)


def test_only_the_first_content_counts_as_sent() -> None:
    """Later frames do not move the gap."""
    one = ledger()
    assert not one.content_sent
    one.on_soft_end(1.0, 1.0)
    one.on_commit(1.1)
    one.on_sent(1.1)
    one.on_sent(9.0)
    assert one.content_sent
    assert one.record().felt_estimate_s == pytest.approx(0.11)


def late(**marks: float) -> TurnRecord:
    """A reply begun at the soft end, with these instants (ms after speech end)."""
    at = {"soft": 30.0, "begun": 50.0, "commit": 130.0, "clause": 100.0, "audio": 140.0, "sent": 140.0}
    at |= marks
    one = ledger()
    one.on_soft_end(0.0, at["soft"] / 1000)
    one.on_reply_begun(at["begun"] / 1000)
    one.on_clause(at["clause"] / 1000)
    one.on_audio(at["audio"] / 1000)
    one.on_commit(at["commit"] / 1000)
    one.on_sent(at["sent"] / 1000)
    return one.record()


def test_a_turn_within_its_budget_is_met_to_the_millisecond() -> None:
    """190 ms and 10 of downlink are 200; one more is a miss."""
    assert late(audio=190, sent=190).verdict is Verdict.MET
    assert late(audio=191, sent=191).verdict is Verdict.MISSED


@pytest.mark.parametrize(
    ("marks", "stage", "kind", "over_ms"),
    [
        ({"commit": 600, "sent": 600}, Stage.ENDPOINT, "endpoint", 600 - 65),
        ({"begun": 300, "clause": 310, "audio": 320, "sent": 320}, Stage.ASR, "wait", 270 - 25),
        ({"clause": 400, "audio": 410, "sent": 410}, Stage.LLM, "wait", 350 - 45),
        ({"audio": 500, "sent": 500}, Stage.TTS, "wait", 400 - 40),
        ({"sent": 900}, Stage.SEND, "wait", 770 - 25),
    ],
)
def test_a_miss_is_blamed_on_the_stage_that_overran_most(
    marks: dict[str, float], stage: Stage, kind: str, over_ms: float
) -> None:
    """Exactly one stage, by how much it exceeded its share."""
    record = late(**marks)
    assert record.blame is not None
    assert (record.blame.stage, record.blame.kind) == (stage, kind)
    assert 1000 * record.blame.over_s == pytest.approx(over_ms)


def test_the_kind_of_blame_is_what_took_longer() -> None:
    """Service where the engine was at work, wait where it was not."""
    one = ledger()
    one.on_soft_end(0.0, 0.03)
    one.on_reply_begun(0.05)
    one.on_service(Stage.LLM, Timing(0.05, 0.06, 0.5))
    one.on_clause(0.5)
    one.on_audio(0.52)
    one.on_commit(0.13)
    one.on_sent(0.52)
    assert one.record().blame == Blame(Stage.LLM, "service", pytest.approx(0.45 - 0.045))  # type: ignore[arg-type]


def test_failure_comes_before_every_other_verdict() -> None:
    """Even where content was in time."""
    one = ledger()
    one.on_soft_end(0.0, 0.0)
    one.on_commit(0.1)
    one.on_sent(0.1)
    one.on_failed()
    assert one.record(empty=True).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("empty", "expects_reply", "verdict"),
    [
        (True, True, Verdict.EMPTY),
        (True, False, Verdict.EMPTY),
        (False, True, Verdict.INTERRUPTED),
        (False, False, Verdict.MET),
    ],
)
def test_the_verdict_without_content(empty: bool, expects_reply: bool, verdict: Verdict) -> None:
    """Nothing said, cut before content, or none was wanted."""
    one = ledger()
    one.on_soft_end(0.0, 0.0)
    record = one.record(empty=empty, expects_reply=expects_reply)
    assert record.verdict is verdict
    assert (record.felt_estimate_s, record.system_s) == (None, None)
    assert set(record.stages.values()) == {Share()}


def test_a_dropped_reply_is_waste_and_its_successor_starts_a_new_sheet() -> None:
    """Service spent on it, also what was still running when it was dropped; attempts count both."""
    one = ledger()
    one.on_soft_end(0.0, 0.0)
    one.on_reply_begun(0.01)
    one.on_service(Stage.LLM, Timing(0.01, 0.01, 0.03))
    one.on_reply_dropped()
    one.on_late_service(Timing(0.03, 0.03, 0.07))
    one.on_reply_begun(0.1)
    one.on_service(Stage.LLM, Timing(0.1, 0.1, 0.11))
    one.on_clause(0.11)
    one.on_audio(0.12)
    one.on_commit(0.15)
    one.on_sent(0.15)
    ahead = one.record().speculation
    assert (ahead.hit, ahead.attempts) == (True, 2)
    assert ahead.wasted_s == pytest.approx(0.06)
    assert ahead.saved_s == pytest.approx(0.01)


def test_dropping_nothing_wastes_nothing() -> None:
    """Also clauses and audio without a reply leave no mark."""
    one = ledger()
    one.on_reply_dropped()
    one.on_clause(1.0)
    one.on_audio(1.0)
    assert one.record().speculation == Speculation()


def test_a_reopened_turn_is_measured_from_its_last_end() -> None:
    """The false start does not count as content; how often it happened does."""
    one = ledger()
    one.on_soft_end(0.0, 0.03)
    one.on_reply_begun(0.03)
    one.on_clause(0.05)
    one.on_audio(0.07)
    one.on_commit(0.13)
    one.on_sent(0.13)
    one.on_reply_dropped()
    one.on_reopen()
    assert not one.content_sent
    one.on_soft_end(2.0, 2.03)
    one.on_reply_begun(2.05)
    one.on_clause(2.06)
    one.on_audio(2.08)
    one.on_commit(2.13)
    one.on_sent(2.13)
    record = one.record()
    assert record.reopened == 1
    assert record.felt_estimate_s == pytest.approx(0.14)


def test_a_reply_made_in_an_earlier_pause_has_no_negative_share() -> None:
    """The user went on, and said nothing that changes the answer: it was ready before the speech ended."""
    one = ledger()
    one.on_soft_end(0.0, 0.03)
    one.on_reply_begun(0.05)
    one.on_clause(0.06)
    one.on_soft_end(1.0, 1.03)
    one.on_audio(1.2)
    one.on_commit(1.13)
    one.on_sent(1.2)
    record = one.record()
    assert rounded(record) == {
        Stage.ENDPOINT: (30, 0),
        Stage.TTS: (170, 0),
        Stage.SEND: (10, 0),
    }


instants = st.lists(st.floats(0, 3), min_size=12, max_size=12).map(sorted)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(instants, st.integers(0, 7), st.booleans())
def test_the_shares_always_add_up(times: list[float], commit_at: int, ready: bool) -> None:
    """Whatever the order of commit and work: the stages sum up to the felt gap, and none is negative."""
    one = ledger()
    t = iter(times)
    one.on_soft_end(next(t), soft_end := next(t))
    marks = [
        lambda now: one.on_service(Stage.ASR, Timing(soft_end, soft_end, now)),
        one.on_reply_begun,
        lambda now: one.on_service(Stage.LLM, Timing(soft_end, (soft_end + now) / 2, now)),
        one.on_clause,
        lambda now: one.on_service(Stage.TTS, Timing(soft_end, now, now)),
        one.on_audio,
    ]
    marks.insert(min(commit_at, len(marks)), one.on_commit)
    for mark in marks if ready else marks[: commit_at + 1]:
        mark(next(t))
    if one.record().felt_estimate_s is None and not ready:
        one.on_commit(next(t))
    one.on_sent(times[-1])
    record = one.record()
    assert record.felt_estimate_s is not None
    total = sum(share.wait_s + share.service_s for share in record.stages.values())
    assert total == pytest.approx(record.felt_estimate_s, abs=1e-9)
    assert all(share.wait_s + share.service_s >= -1e-9 for share in record.stages.values())
    assert all(share.service_s >= -1e-9 for share in record.stages.values())
    missed = record.felt_estimate_s > 0.2
    assert (record.verdict is Verdict.MISSED, record.blame is not None) == (missed, missed)
