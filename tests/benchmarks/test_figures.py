"""The figures of live turns, on turns made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from clips import Labelled
from figures import Commit, LiveTurn, Point, pause_at, summarise, table

from voicepipe.core.events import BlameKind, Instants, Part, Speculation, Stage, Verdict
from voicepipe.core.events import TurnRecord as Ledger
from voicepipe.wire import messages as wire
from voicepipe_client import TurnRecord

RATE_HZ = 16_000
NOTHING = wire.StageTimes(wait_ms=0.0, service_ms=0.0)
STAGES = wire.Stages(endpoint=NOTHING, asr=NOTHING, llm=NOTHING, tts=NOTHING, send=NOTHING)


def seen(felt_ms: float | None, *, turn: int = 1, text: str = "", **more: Any) -> TurnRecord:
    """As the client saw it."""
    ahead = {"hit": True, "attempts": 2, "saved_ms": 40.0, "wasted_ms": 100.0} | more.pop("ahead", {})
    values: dict[str, Any] = {"verdict": "met", "reply": "Yes.", "system_ms": 10.0, "blame": None} | more
    return TurnRecord(
        turn=turn,
        transcript=text,
        felt_ms=felt_ms,
        stages=STAGES,
        speculation=wire.Speculation(**ahead),
        **values,
    )


def booked(felt_ms: float, speech_end: float, unattributed_ms: float = 0.0) -> Ledger:
    parts = (
        Part(Stage.ENDPOINT, BlameKind.ENDPOINT, (felt_ms - unattributed_ms) / 1000),
        Part(Stage.LLM, BlameKind.UNATTRIBUTED, unattributed_ms / 1000),
    )
    instants = Instants(speech_end=speech_end)
    return Ledger(1, Verdict.MET, felt_ms / 1000, 0.01, {}, Speculation(), None, instants=instants, parts=parts)


def live(
    *records: TurnRecord,
    text: str | None = "yes please",
    pauses: tuple[tuple[int, int], ...] = ((16_000, 24_000),),
    commits: tuple[int, ...] = (),
    ledger: Ledger | None = None,
) -> LiveTurn:
    """Speech from 100 to 103 s, with a pause of 0.5 s; commits at these positions."""
    samples = np.zeros(5 * RATE_HZ, np.float32)
    clip = Labelled("x", samples, text, 3 * RATE_HZ, pauses)
    made = [Commit(1, 0, at, 100.0 + at / RATE_HZ) for at in commits]
    return LiveTurn(clip, (100.0, 103.0), records, {} if ledger is None else {1: ledger}, made)


def summary(*turns: LiveTurn, reopened: int = 0, lags_s: tuple[float, ...] = (0.001,)) -> dict[str, Any]:
    return summarise(Point("fast", "default", 200.0, turns, reopened, lags_s))


# --- one turn ----------------------------------------------------------------------------------------------


def test_the_answer_is_the_last_content_that_stayed() -> None:
    turn = live(seen(None, turn=1, cutoff=True), seen(180.0, turn=2), seen(None, turn=3))
    assert turn.answer is not None and turn.answer.turn == 2
    assert live(seen(None)).answer is None


def test_a_commit_in_a_labelled_pause_or_right_after_it_is_a_false_cutoff() -> None:
    """The news of it may come when the speaker has gone on already."""
    assert live(commits=(17_000, 50_000)).cutoffs() == (1, 0)
    assert live(commits=(26_000, 50_000)).cutoffs() == (1, 0)
    assert live(commits=(17_000, 23_000, 50_000)).cutoffs() == (1, 0), "one pause is cut off once"


def test_a_commit_in_a_shorter_gap_is_counted_apart() -> None:
    assert live(commits=(8_000, 50_000)).cutoffs() == (0, 1)
    assert live(commits=(40_000, 50_000)).cutoffs() == (0, 1)


def test_a_commit_after_the_end_of_speech_is_none() -> None:
    assert live(commits=(48_000,)).cutoffs() == (0, 0)


def test_of_two_pauses_close_together_the_later_one_is_cut_off() -> None:
    pauses = ((16_000, 20_000), (21_000, 26_000))
    assert pause_at(pauses, 20_500) == pauses[0]
    assert pause_at(pauses, 22_000) == pauses[1]
    assert pause_at(pauses, 16_000) is None


def test_a_turn_goes_from_its_first_word_to_its_answer() -> None:
    assert live(seen(200.0)).turn_s == pytest.approx(3.2)
    assert live(seen(None)).turn_s == pytest.approx(3.0)


# --- many turns --------------------------------------------------------------------------------------------


def test_percentiles_run_over_all_turns() -> None:
    """One without an answer is infinitely late, and counted."""
    told = summary(live(seen(100.0)), live(seen(150.0)), live(seen(None)), live(seen(300.0)))
    assert (told["n"], told["unanswered"]) == (4, 1)
    assert (told["felt_ms"]["p50"], told["felt_ms"]["p95"], told["felt_ms"]["max"]) == (150.0, None, None)
    assert told["within_budget"] == 0.5


def test_rates_are_per_pause_and_per_commit() -> None:
    told = summary(
        live(seen(100.0), commits=(17_000, 49_000)), live(seen(100.0), pauses=(), commits=(50_000,)), reopened=1
    )
    assert (told["pauses"], told["false_cutoffs"], told["false_cutoff_rate"]) == (1, 1, 1.0)
    assert (told["commits"], told["retraction_rate"]) == (3, 0.3333)
    assert told["commit_ms"] == {"p50": pytest.approx(62.5), "p95": pytest.approx(125.0)}


def test_without_pauses_there_is_no_rate() -> None:
    assert summary(live(seen(100.0), pauses=()))["false_cutoff_rate"] is None


def test_word_errors_are_those_of_all_that_was_heard() -> None:
    """Both halves of a turn that was cut in two; what has no text does not count."""
    told = summary(live(seen(None, text="yes"), seen(90.0, text="cheese")), live(seen(90.0, text="so"), text=None))
    assert told["wer"] == 0.5
    assert summary(live(seen(90.0), text=None))["wer"] is None


def test_work_in_vain_is_per_turn_and_a_share_of_its_time() -> None:
    nothing = {"hit": False, "attempts": 0, "wasted_ms": 0.0}
    told = summary(live(seen(None), seen(200.0, turn=2)), live(seen(800.0, ahead=nothing)))
    assert told["wasted_ms_per_turn"] == 100.0
    assert told["wasted_share"] == pytest.approx(0.2 / (3.2 + 3.8), abs=1e-4)
    assert told["attempts_per_turn"] == 2.0
    assert told["speculation_hit_rate"] == 0.6667


def test_an_empty_turn_has_no_speculation_to_hit() -> None:
    assert summary(live(seen(None, verdict="empty"), seen(100.0)))["speculation_hit_rate"] == 1.0


def test_verdicts_agree_where_both_say_in_time_or_both_do_not() -> None:
    told = summary(live(seen(150.0)), live(seen(250.0)), live(seen(250.0, verdict="missed")), live(seen(None)))
    assert told["verdict_agreement"] == 0.6667
    assert told["verdicts"] == {"met": 3, "missed": 1}


def test_a_false_cutoff_has_no_verdict() -> None:
    assert summary(live(seen(None, cutoff=True), seen(100.0)))["verdicts"] == {"met": 1}


def test_the_books_tell_what_is_unattributed_and_when_speech_ended() -> None:
    told = summary(live(seen(150.0), ledger=booked(155.0, 102.99, unattributed_ms=4.0)), live(seen(None)))
    assert told["unattributed_ms"] == {"p50": 4.0, "p95": 4.0}
    assert told["speech_end_error_ms"]["p50"] == pytest.approx(-10.0)
    assert sum(part["ms"] for part in told["waterfall"]["parts"]) == pytest.approx(150.0)


def test_lag_is_told_in_milliseconds() -> None:
    told = summary(live(seen(100.0)), lags_s=(0.001, 0.002, 0.009))
    assert told["loop_lag_ms"] == {"p50": 2.0, "p99": 9.0, "max": 9.0}


def test_the_fixed_fields_are_there() -> None:
    fixed = "n felt_ms system_ms false_cutoff_rate retraction_rate speculation_hit_rate wer operating_point engines"
    told = summary(live(seen(100.0)))
    assert set(fixed.split()) | {"speech_end_error_ms"} <= told.keys()
    assert set(told["felt_ms"]) == set(told["system_ms"]) == {"p50", "p95", "p99", "min", "max"}


def test_the_table_has_a_column_for_each_point() -> None:
    lines = table([summary(live(seen(100.0))), summary(live(seen(None)), lags_s=())])
    cells = {line[:36].strip(): line[36:].split() for line in lines}
    assert cells[""] == ["fast", "fast"]
    assert cells["felt gap p50, ms"] == ["100.0", "null"]
    assert cells["within the budget, %"] == ["100.0", "0.0"]
    assert cells["loop lag max, ms"] == ["1.0", "null"]
