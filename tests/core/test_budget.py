"""The ledger: instants kept, shares that add up, the first verdict that fits, one stage to blame."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.blame import shares_of
from voicepipe.core.budget import Ledger
from voicepipe.core.events import (
    BlameKind,
    Forecast,
    Instants,
    RefusedFor,
    Share,
    Speculation,
    Stage,
    Timing,
    TurnRecord,
    Verdict,
    Waits,
)


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


def test_audio_that_was_ready_costs_the_endpoint_and_the_way_out() -> None:
    """Work within the endpoint's patience is not on the critical path, and saves nothing after the speech end."""
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
    assert record.speculation.saved_s == 0.0
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
    assert record.speculation.saved_s == 0.0


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
    one.on_soft_end(1.0, 1.0)
    one.on_commit(1.1)
    one.on_sent(1.1)
    one.on_sent(9.0)
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
        ({"commit": 600, "sent": 600}, Stage.ENDPOINT, BlameKind.ENDPOINT, 600 - 65),
        ({"begun": 300, "clause": 310, "audio": 320, "sent": 320}, Stage.ASR, BlameKind.UNATTRIBUTED, 270),
        ({"clause": 400, "audio": 410, "sent": 410}, Stage.LLM, BlameKind.UNATTRIBUTED, 350),
        ({"audio": 500, "sent": 500}, Stage.TTS, BlameKind.UNATTRIBUTED, 400),
        ({"sent": 900}, Stage.SEND, BlameKind.WAIT, 760),
    ],
)
def test_a_miss_is_blamed_on_the_stage_that_overran_most(
    marks: dict[str, float], stage: Stage, kind: BlameKind, over_ms: float
) -> None:
    """Exactly one; without chunks nothing explains the time of those stages that have some."""
    record = late(**marks)
    assert record.blame is not None
    assert (record.blame.stage, record.blame.kind) == (stage, kind)
    assert 1000 * record.blame.over_s == pytest.approx(over_ms)


def test_the_kind_of_blame_is_what_took_longer() -> None:
    """Service where the engine was at work, beyond the stage's share of 45 ms."""
    one = ledger()
    one.on_soft_end(0.0, 0.03)
    one.on_reply_begun(0.05)
    one.on_service(Stage.LLM, Timing(0.05, 0.06, 0.5))
    one.on_clause(0.5)
    one.on_audio(0.52)
    one.on_commit(0.13)
    one.on_sent(0.52)
    blame = one.record().blame
    assert blame is not None
    assert (blame.stage, blame.kind) == (Stage.LLM, BlameKind.SERVICE)
    assert blame.over_s == pytest.approx(0.44 - 0.045)
    assert blame.unattributed_s == pytest.approx(0.02 + 0.02)  # begun after the soft end, no chunk made the audio


def test_a_wait_of_unknown_cause_was_for_others() -> None:
    """A device that does not say why still says how long."""
    one = ledger()
    one.on_soft_end(0.0, 0.0)
    one.on_commit(0.0)
    one.on_reply_begun(0.0)
    one.on_service(Stage.LLM, Timing(0.0, 0.3, 0.32))
    one.on_clause(0.32)
    one.on_audio(0.32)
    one.on_sent(0.32)
    blame = one.record().blame
    assert blame is not None
    assert (blame.stage, blame.kind, blame.over_s) == (Stage.LLM, BlameKind.WAIT, pytest.approx(0.3))


def test_the_plan_can_be_that_of_another_machine() -> None:
    """Where silence of 130 ms is planned, it is not what made the turn late."""
    shares = shares_of({Stage.ENDPOINT: 0.13, Stage.SEND: 0.01})

    def blamed(one: Ledger) -> tuple[Stage, BlameKind]:
        one.on_soft_end(0.0, 0.03)
        one.on_reply_begun(0.04)
        one.on_clause(0.05)
        one.on_audio(0.06)
        one.on_commit(0.15)
        one.on_sent(0.2)
        blame = one.record().blame
        assert blame is not None
        return blame.stage, blame.kind

    assert blamed(ledger()) == (Stage.ENDPOINT, BlameKind.ENDPOINT)
    assert blamed(Ledger(1, 0.2, 0.01, shares)) == (Stage.SEND, BlameKind.WAIT)


def test_shares_that_are_not_a_whole_are_a_bug() -> None:
    """They would make parts that do not sum up to the overrun."""
    with pytest.raises(AssertionError):
        Ledger(1, 0.2, 0.01, {Stage.LLM: 0.9})


def test_every_instant_is_kept() -> None:
    """As it was told, the first of each; of thoughts and answers only while there is a reply."""
    one = ledger()
    one.on_llm_first(9.0)
    one.on_answer_first(9.0)
    one.on_soft_end(10.0, 10.03)
    one.on_asr_final(10.05)
    one.on_reply_begun(10.06)
    for later in (0.0, 1.0):
        one.on_llm_first(10.07 + later)
        one.on_answer_first(10.08 + later)
        one.on_clause(10.09 + later)
        one.on_audio(10.11 + later)
    one.on_commit(10.13)
    for later in (0.0, 1.0):
        one.on_acknowledged(10.135 + later)
        one.on_sent(10.14 + later)
    one.on_heard(10.25, played_s=0.1)
    record = one.record(now=12.0)
    assert record.instants == Instants(
        speech_end=10.0,
        soft_end=10.03,
        eager=10.06,
        commit=10.13,
        asr_final=10.05,
        llm_first=10.07,
        answer_first=10.08,
        clause=10.09,
        audio=10.11,
        acknowledged=10.135,
        sent=10.14,
        heard=pytest.approx(10.15),  # type: ignore[arg-type]
        ended=12.0,
    )
    assert (record.deadline, record.budget_s) == (pytest.approx(10.19), 0.2)


def test_what_did_not_happen_has_no_instant() -> None:
    """A reply begun at the commit was not begun ahead of it."""
    one = ledger()
    assert one.record().instants == Instants()
    one.on_commit(5.0)
    one.on_reply_begun(5.0)
    assert one.record().instants == Instants(speech_end=5.0, soft_end=5.0, commit=5.0)


def test_a_commit_that_waited_for_the_final_text_waited_for_recognition() -> None:
    """The reply that had been made ahead was right, and could not be released."""
    one = ledger()
    one.on_soft_end(0.0, 0.03)
    one.on_reply_begun(0.03)
    one.on_clause(0.04)
    one.on_audio(0.06)
    one.on_service(Stage.ASR, Timing(0.03, 0.05, 0.15), Waits(lower_s=0.02))
    one.on_asr_final(0.15)
    one.on_commit(0.15)
    one.on_sent(0.15)
    assert rounded(one.record()) == {
        Stage.ENDPOINT: (30, 0),
        Stage.ASR: (20, 100),
        Stage.SEND: (10, 0),
    }


def test_playback_reports_can_only_show_that_it_was_later() -> None:
    """The earliest beginning that they tell of holds, and none before the hand-off."""

    def felt(*reports: tuple[float, float]) -> float:
        one = ledger()
        one.on_heard(0.0, 0.0)  # of a reply that was dropped
        one.on_soft_end(0.0, 0.03)
        one.on_commit(0.1)
        one.on_sent(0.1)
        for now, played_s in reports:
            one.on_heard(now, played_s)
        felt_s = one.record().felt_estimate_s
        assert felt_s is not None
        return round(felt_s, 6)

    assert felt() == 0.11
    assert felt((0.15, 0.1)) == 0.11
    assert felt((0.3, 0.02)) == 0.28
    assert felt((0.3, 0.02), (0.45, 0.25), (0.9, 0.4)) == 0.2


def test_late_playing_is_the_clients() -> None:
    """What lies between the socket and the ear beyond the share of 25 ms."""
    one = ledger()
    one.on_soft_end(0.0, 0.03)
    one.on_commit(0.06)
    one.on_sent(0.06)
    one.on_heard(0.4)
    blame = one.record().blame
    assert blame is not None
    assert (blame.stage, blame.kind) == (Stage.SEND, BlameKind.CLIENT)
    assert blame.over_s == pytest.approx(0.34 - 0.025)


def test_a_forecast_holds_slack_and_finish() -> None:
    """Deadline - now - remaining; without a deadline no slack. Past the first content there is none to keep."""
    one = ledger()
    one.on_predicted(Stage.LLM, 0.1, 9.9)
    assert one.record().forecasts == (Forecast(Stage.LLM, 9.9, None, pytest.approx(10.0)),)  # type: ignore[arg-type]
    one.on_soft_end(10.0, 10.03)
    one.on_predicted(Stage.LLM, 0.1, 10.04)
    one.on_predicted(Stage.TTS, 0.12, 10.1)
    one.on_commit(10.13)
    one.on_sent(10.14)
    one.on_predicted(Stage.TTS, 0.1, 10.2)
    first, second = one.record().forecasts
    assert (first.stage, first.at, first.slack_s) == (Stage.LLM, 10.04, pytest.approx(0.05))
    assert (second.slack_s, second.finish) == (pytest.approx(-0.03), pytest.approx(10.22))


def test_a_refused_turn_has_its_path_up_to_the_refusal() -> None:
    """The clause had not come by the deadline: what the model had not ended is told apart, and blamed."""
    one = ledger()
    one.on_soft_end(10.0, 10.03)
    one.on_service(Stage.ASR, Timing(10.03, 10.04, 10.06))
    one.on_commit(10.06)
    one.on_reply_begun(10.06)
    one.on_service(Stage.LLM, Timing(10.06, 10.07, 10.10))
    one.on_refused(RefusedFor.NO_CONTENT, 10.19)
    record = one.record(now=10.19)
    assert (record.verdict, record.reason, record.felt_estimate_s) == (Verdict.REFUSED, "no-content", None)
    assert rounded(record) == {Stage.ENDPOINT: (60, 0), Stage.LLM: (100, 30)}
    kinds = {part.kind: round(1000 * part.seconds, 6) for part in record.parts if part.stage is Stage.LLM}
    assert kinds[BlameKind.UNFINISHED] == 90
    assert record.blame is not None
    assert (record.blame.stage, record.blame.kind) == (Stage.LLM, BlameKind.UNFINISHED)
    assert record.blame.over_s == pytest.approx(0.09)
    assert record.blame.overrun_s == pytest.approx(0.19 - 0.065 - 0.045)


@pytest.mark.parametrize(
    ("clause", "audio", "stage"), [(None, None, Stage.LLM), (10.1, None, Stage.TTS), (10.1, 10.15, Stage.SEND)]
)
def test_a_refused_turn_ends_in_the_stage_in_which_it_stood(
    clause: float | None, audio: float | None, stage: Stage
) -> None:
    """Of a reply that was begun ahead; all before it is as of any other turn."""
    one = ledger()
    one.on_soft_end(10.0, 10.03)
    one.on_reply_begun(10.05)
    one.on_commit(10.09)
    if clause is not None:
        one.on_clause(clause)
    if audio is not None:
        one.on_audio(audio)
    one.on_refused(RefusedFor.NO_CONTENT, 10.19)
    record = one.record()
    unfinished = [part.stage for part in record.parts if part.kind is BlameKind.UNFINISHED]
    assert unfinished == [stage]
    assert sum(part.seconds for part in record.parts) == pytest.approx(0.19)


def test_a_late_commit_is_the_endpoints_though_a_reply_was_ready_or_not() -> None:
    """Nothing was unfinished: the refusal is the commit's."""
    for ready in (False, True):
        one = ledger()
        one.on_soft_end(0.0, 0.03)
        one.on_reply_begun(0.04)
        if ready:
            one.on_clause(0.05)
            one.on_audio(0.06)
        one.on_commit(0.5)
        one.on_refused(RefusedFor.LATE_COMMIT, 0.5)
        record = one.record()
        assert record.reason == "late-commit" and rounded(record) == {Stage.ENDPOINT: (500, 0)}
        assert record.blame is not None and record.blame.kind is BlameKind.ENDPOINT


def test_a_refusal_within_the_plan_is_blamed_on_what_took_longest() -> None:
    """A machine whose endpoint is planned to take nearly all: by nothing, rather than on nobody."""
    one = Ledger(1, 0.2, 0.01, shares={stage: 0.96 if stage is Stage.ENDPOINT else 0.01 for stage in Stage})
    one.on_soft_end(0.0, 0.03)
    one.on_reply_begun(0.04)
    one.on_commit(0.191)
    one.on_refused(RefusedFor.LATE_COMMIT, 0.191)
    blame = one.record().blame
    assert blame is not None and (blame.stage, blame.kind, blame.over_s) == (
        Stage.ENDPOINT,
        BlameKind.ENDPOINT,
        0.0,
    )


def test_a_refusal_that_took_no_time_is_nobodys() -> None:
    """A typed turn on a budget that is shorter than the way to the ear."""
    one = Ledger(1, budget_s=0.01, downlink_s=0.02)
    one.on_commit(5.0)
    one.on_refused(RefusedFor.LATE_COMMIT, 5.0)
    record = one.record()
    assert (record.verdict, record.blame, record.parts) == (Verdict.REFUSED, None, ())


def test_a_failed_turn_says_by_what() -> None:
    """The code of the engine's error; without content there is no path to split."""
    one = ledger()
    one.on_soft_end(0.0, 0.03)
    one.on_commit(0.1)
    one.on_failed("engine_timeout")
    record = one.record()
    assert (record.verdict, record.reason, record.parts) == (Verdict.FAILED, "engine_timeout", ())


def judged(sent_ms: float, *marks: str, ack_ms: float = 50.0) -> Verdict:
    """A committed turn with content at `sent_ms` after speech end, and these marks."""
    one = ledger()
    one.on_soft_end(0.0, 0.0)
    one.on_commit(0.01)
    if "rung" in marks:
        one.on_rung("short_clause")
    if "ack" in marks:
        one.on_acknowledged(ack_ms / 1000)
    if "cut" not in marks:
        one.on_sent(sent_ms / 1000)
    if "refused" in marks:
        one.on_refused(RefusedFor.NO_CONTENT, 0.19)
    if "failed" in marks:
        one.on_failed("engine_failed")
    return one.record(empty="empty" in marks).verdict


@pytest.mark.parametrize(
    ("sent_ms", "marks", "verdict"),
    [
        (300, ("failed", "refused", "empty", "cut", "ack", "rung"), Verdict.FAILED),
        (300, ("refused", "empty", "cut", "ack", "rung"), Verdict.REFUSED),
        (300, ("empty", "cut", "ack", "rung"), Verdict.EMPTY),
        (300, ("cut", "ack", "rung"), Verdict.INTERRUPTED),
        (300, ("ack", "rung"), Verdict.MASKED),
        (300, ("rung",), Verdict.MISSED),
        (300, (), Verdict.MISSED),
        (100, ("ack", "rung"), Verdict.DEGRADED),
        (100, ("rung",), Verdict.DEGRADED),
        (100, ("ack",), Verdict.MET),
        (100, (), Verdict.MET),
    ],
)
def test_the_first_verdict_that_fits(sent_ms: float, marks: tuple[str, ...], verdict: Verdict) -> None:
    """In the order in which they are listed."""
    assert judged(sent_ms, *marks) is verdict


def test_an_acknowledgement_masks_only_in_time() -> None:
    """It has the same way to the ear as content: 190 ms of 200."""
    assert judged(300, "ack", ack_ms=190) is Verdict.MASKED
    assert judged(300, "ack", ack_ms=191) is Verdict.MISSED


@pytest.mark.parametrize(
    ("commit", "acknowledged", "verdict"),
    [
        (0.1, 0.19, Verdict.MASKED),
        (0.1, 0.191, Verdict.MISSED),
        (0.185, 0.194, Verdict.MASKED),  # too near to the deadline for a sound to be there by then
        (0.185, 0.196, Verdict.MISSED),
        (0.6, 0.609, Verdict.MASKED),
        (0.6, 0.611, Verdict.MISSED),
    ],
)
def test_after_a_late_commit_it_masks_what_is_left_of_the_wait(
    commit: float, acknowledged: float, verdict: Verdict
) -> None:
    """Nothing may be heard before the commit; a sound right at it is as early as one can be. It is never `met`."""
    one = ledger()
    assert one.masks_until is None
    one.on_soft_end(0.0, 0.02)
    assert one.masks_until == pytest.approx(0.19)
    one.on_commit(commit)
    one.on_rung("acknowledge")
    one.on_acknowledged(acknowledged)
    one.on_sent(1.0)
    assert one.record().verdict is verdict


def test_content_behind_an_acknowledgement_is_heard_after_it() -> None:
    """Handed to the socket in time, it waits at the client until the sound has ended: that is when it is felt."""
    one = ledger()
    one.on_soft_end(0.0, 0.02)
    one.on_commit(0.1)
    one.on_acknowledged(0.18)
    one.on_sent(0.19, behind_s=0.25)
    record = one.record()
    assert record.felt_estimate_s == pytest.approx(0.45)
    assert record.system_s == pytest.approx(0.09)
    assert record.verdict is Verdict.MASKED
    assert rounded(record)[Stage.SEND] == (350, 0)
    assert record.blame is not None and (record.blame.stage, record.blame.kind) == (Stage.SEND, BlameKind.WAIT)
    one.on_heard(0.6)
    assert one.record().felt_estimate_s == pytest.approx(0.6)


def test_lateness_that_was_masked_is_blamed_too() -> None:
    """The content was late all the same."""
    one = ledger()
    one.on_commit(0.0)
    one.on_acknowledged(0.1)
    one.on_sent(0.4)
    record = one.record()
    assert (record.verdict, record.rungs) == (Verdict.MASKED, ())
    assert record.blame is not None and record.blame.kind is BlameKind.WAIT


def test_a_false_start_takes_its_marks_along() -> None:
    """Rungs, acknowledgement and playback belonged to the reply that was taken back."""
    one = ledger()
    one.on_commit(0.0)
    one.on_rung("short_clause")
    one.on_acknowledged(0.05)
    one.on_sent(0.1)
    one.on_heard(0.2)
    one.on_reopen()
    one.on_soft_end(2.0, 2.03)
    one.on_commit(2.1)
    one.on_sent(2.11)
    record = one.record()
    assert (record.verdict, record.rungs) == (Verdict.MET, ())
    assert (record.instants.acknowledged, record.instants.heard) == (None, None)


def test_failure_comes_before_every_other_verdict() -> None:
    """Even where content was in time."""
    one = ledger()
    one.on_soft_end(0.0, 0.0)
    one.on_commit(0.1)
    one.on_sent(0.1)
    one.on_failed("engine_failed")
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
    assert ahead.saved_s == 0.0


@pytest.mark.parametrize(
    ("llm", "tts", "saved_s"),
    [
        ((9.90, 9.92), (9.92, 9.95), 0.05),  # all of it before the speech end
        ((9.96, 9.98), (9.98, 10.05), 0.04),  # one runs across it
        ((9.97, 10.02), (10.02, 10.05), 0.03),  # the other one does
        ((10.01, 10.03), (10.03, 10.05), 0.0),  # in the pause: saved is what the turn does not wait for
    ],
)
def test_saved_is_what_was_done_before_the_speech_end(
    llm: tuple[float, float], tts: tuple[float, float], saved_s: float
) -> None:
    """Of a chunk that runs across the speech end the part before it, wherever the commit is."""
    one = ledger()
    one.on_reply_begun(llm[0])
    one.on_service(Stage.LLM, Timing(llm[0], *llm))
    one.on_clause(llm[1])
    one.on_soft_end(speech_end=10.0, now=10.03)
    one.on_service(Stage.TTS, Timing(tts[0], *tts))
    one.on_audio(tts[1])
    one.on_commit(10.1)
    one.on_sent(10.1)
    record = one.record()
    assert record.speculation.hit
    assert record.speculation.saved_s == pytest.approx(saved_s)


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
    assert one.record().felt_estimate_s is None
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
