"""The waterfall: each stage begins where the last one ended, and the budget is a line across all."""

from __future__ import annotations

import pytest

from voicepipe.waterfall import BAR_COLUMNS, turn_lines, waterfall

STAGES = {"endpoint": (50.0, 0.0), "asr": (10.0, 40.0), "llm": (0.0, 60.0), "tts": (0.0, 0.0), "send": (0.0, 40.0)}


def cells(line: str) -> str:
    return line[11 : 11 + BAR_COLUMNS + 1]


def test_bars_follow_each_other_without_gap_or_overlap() -> None:
    """200 ms on 40 columns: 5 ms each; waiting is light, work is dark."""
    bars = [cells(line).replace("│", " ").rstrip() for line in waterfall(STAGES, 200.0)]
    assert bars[0] == "░" * 10
    assert bars[1] == " " * 10 + "░" * 2 + "█" * 8
    assert bars[2] == " " * 20 + "█" * 12
    assert bars[3] == ""
    assert bars[4] == " " * 32 + "█" * 8


def test_the_budget_is_marked_where_no_bar_covers_it() -> None:
    """At its place on the scale: the right edge when it is the longer one, inside when the turn is."""
    assert all(cells(line)[BAR_COLUMNS] == "│" for line in waterfall(STAGES, 400.0))
    assert [cells(line)[20] for line in waterfall(STAGES, 100.0)] == ["│", "│", "█", "│", "│"]


def test_a_turn_without_content_says_so() -> None:
    """No felt gap, no bars: the verdict all the same."""
    nothing = {name: {"wait_ms": 0.0, "service_ms": 0.0} for name in STAGES}
    record = {
        "turn": 3,
        "verdict": "empty",
        "felt_ms": None,
        "stages": nothing,
        "speculation": {"hit": False, "saved_ms": 0.0},
        "blame": None,
    }
    assert list(turn_lines(record, 200.0)) == ["turn 3: empty, no answer heard (budget 200 ms)"]


def test_a_false_cutoff_is_no_hit() -> None:
    """Whatever the server's verdict: no figure that could be taken for one."""
    record = {
        "turn": 2,
        "verdict": "met",
        "felt_ms": None,
        "stages": {},
        "speculation": {"hit": False, "saved_ms": 0.0},
        "blame": None,
        "cutoff": True,
    }
    (line,) = turn_lines(record, 200.0)
    assert line.startswith("turn 2: met, but a false cutoff: it was answered before the speech")
    assert " ms from the end" not in line


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("late-commit", "what had been said was certain only after its deadline"),
        ("no-content", "nothing of the answer was ready at its deadline"),
        ("sulking", "sulking"),
    ],
)
def test_a_refused_turn_says_why_and_shows_how_far_it_came(reason: str, says: str) -> None:
    """The bars up to the refusal, and the part to blame."""
    record = {
        "turn": 1,
        "verdict": "refused",
        "reason": reason,
        "felt_ms": None,
        "stages": {name: {"wait_ms": w, "service_ms": s} for name, (w, s) in STAGES.items()},
        "speculation": {"hit": False, "saved_ms": 0.0},
        "blame": {"stage": "llm", "kind": "unfinished", "ms": 15.2},
    }
    first, *bars, last = turn_lines(record, 200.0)
    assert first == f"turn 1: refused, not answered: {says}, and the budget is enforced (budget 200 ms)"
    assert len(bars) == len(STAGES)
    assert last == "  over its share: llm (unfinished), by 15 ms"


def test_a_failed_turn_names_its_error() -> None:
    """As it stands in the tree of errors."""
    record = {
        "turn": 1,
        "verdict": "failed",
        "reason": "engine_timeout",
        "felt_ms": None,
        "stages": {},
        "speculation": {"hit": False, "saved_ms": 0.0},
        "blame": None,
    }
    assert list(turn_lines(record, 200.0)) == ["turn 1: failed, no answer heard (engine_timeout) (budget 200 ms)"]


@pytest.mark.parametrize(
    ("felt_ms", "says"),
    [
        (156.2, "here it was 6 ms more: network, playback, and where either hears the speech end"),
        (141.0, "here it was 9 ms less: network, playback, and where either hears the speech end"),
        (150.4, "the same as was measured here"),
    ],
)
def test_the_measured_gap_and_the_servers_are_told_apart(felt_ms: float, says: str) -> None:
    """The first line is the client's, the stages are the server's; the line below them says what lies between."""
    record = {
        "turn": 1,
        "verdict": "met",
        "felt_ms": felt_ms,
        "measured": True,
        "felt_estimate_ms": 150.0,
        "stages": {name: {"wait_ms": w, "service_ms": s} for name, (w, s) in STAGES.items()},
        "speculation": {"hit": False, "saved_ms": 0.0},
        "blame": None,
    }
    first, *_, last = turn_lines(record, 200.0)
    assert f"{felt_ms:.0f} ms from the end of speech to sound, measured here (budget 200 ms)" in first
    assert last.startswith("  = 150 ms as the server counts, and judges") and last.endswith(says)


def test_a_gap_that_nobody_measured_is_the_servers_estimate() -> None:
    """A microphone's: one figure, and whose it is."""
    record = {
        "turn": 1,
        "verdict": "met",
        "felt_ms": 150.0,
        "measured": False,
        "felt_estimate_ms": 150.0,
        "stages": {name: {"wait_ms": w, "service_ms": s} for name, (w, s) in STAGES.items()},
        "speculation": {"hit": False, "saved_ms": 0.0},
        "blame": None,
    }
    first, *bars = turn_lines(record, 200.0)
    assert "150 ms from the end of speech to sound, by the server's estimate" in first
    assert len(bars) == len(STAGES)


def test_a_miss_names_the_stage_to_blame() -> None:
    """With kind and excess; what was done ahead is told too."""
    record = {
        "turn": 1,
        "verdict": "missed",
        "felt_ms": 312.4,
        "stages": {name: {"wait_ms": w, "service_ms": s} for name, (w, s) in STAGES.items()},
        "speculation": {"hit": True, "saved_ms": 41.6},
        "blame": {"stage": "llm", "kind": "service", "ms": 15.2},
    }
    lines = list(turn_lines(record, 200.0))
    assert lines[0].startswith("turn 1: missed, 312 ms")
    assert lines[-2:] == [
        "  42 ms of work were done before the end of speech",
        "  over its share: llm (service), by 15 ms",
    ]
