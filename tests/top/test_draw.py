"""Figures as lines: what stands there, and that it fits."""

from __future__ import annotations

import re

import pytest

from tests.top.conftest import Watched
from voicepipe.core.events import BlameKind, Stage, Verdict
from voicepipe.core.overload import Level
from voicepipe.metrics.states import Phase
from voicepipe.top.draw import Style, away, bar, frame, rendered, screen, span, sparkline
from voicepipe.top.figures import figures

URL = "http://127.0.0.1:8765/metrics"


def text(watched: Watched, trend_ms: list[float | None] | None = None, width: int = 100) -> str:
    rows = frame(figures(watched.read(60.0), None, 60.0), trend_ms or [], URL, width)
    return "\n".join(screen(rows, width, len(rows), colour=False))


def test_a_frame_says_all() -> None:
    watched = Watched()
    watched.turn(Verdict.MET, 0.12)
    watched.late(Stage.LLM, BlameKind.SERVICE, 0.3)
    watched.metrics.refused("burst")
    watched.metrics.chunk_done("cpu", "llm", "started", 30.0)
    watched.metrics.chunk_done("cpu", "asr", "asr", 6.0)
    watched.metrics.loop_lagged(0.0005)
    watched.metrics.engine_failed("llm")
    said = text(watched, [120.0, None, 500.0])
    for expected in (
        "voicepipe 1.2.3  http://127.0.0.1:8765/metrics  ready",
        "0 of 4 sessions   since its start, 1 min 00 s ago: 2 turns",
        "felt gap   p50 ",
        "trend      ▃ █",
        "budget     200 ms",
        "unhurried 130 ms",
        "in time      50 %",
        "missed 1",
        "blame      llm      service         1  ████████████  300 ms over, on average",
        "refused    burst 1",
        "leases     session 0  llm 0  text 0",
        "admission  burst 50 %",
        "cpu          30 %",
        "3 wait",
        "           turns 25 %  listening 5 %",
        "100 % of replies had been begun, 2.0 attempts a turn",
        "shed nothing",
        "engine failures 1",
    ):
        assert expected in said, said


def test_a_server_at_rest() -> None:
    said = text(Watched())
    assert "in time        -" in said and "nothing was late" in said and "nobody" in said and "no turn" in said
    assert "trend" not in said and "engine failures" not in said


@pytest.mark.parametrize(
    ("phase", "level", "says"),
    [
        (Phase(ready=False, draining=False), Level.NONE, "warming up"),
        (Phase(ready=False, draining=True), Level.NONE, "draining"),
        (Phase(ready=True, draining=False), Level.REFUSE, "shed new sessions"),
    ],
)
def test_states(phase: Phase, level: Level, says: str) -> None:
    watched = Watched()
    watched.phase, watched.level = phase, level
    assert says in text(watched)


def test_blames_are_sorted_and_the_rest_is_counted() -> None:
    watched = Watched()
    for number, kind in enumerate([BlameKind.WAIT, BlameKind.SERVICE, BlameKind.BLOCKING, BlameKind.HAND_OFF]):
        for stage in (Stage.ASR, Stage.LLM):
            for _ in range(number + 1):
                watched.late(stage, kind, 0.1)
    said = text(watched)
    assert said.index("hand-off") < said.index("blocking") < said.index("service")
    assert "3 others: 4" in said


@pytest.mark.parametrize("width", [10, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 8, 24, 60])
def test_it_fits_any_terminal(width: int, height: int) -> None:
    """No line is longer, there are no more lines; what is left out is told."""
    watched = Watched()
    watched.late(Stage.LLM, BlameKind.SERVICE, 3.0)
    rows = frame(figures(watched.read(), None, 60.0), [100.0] * 120, URL, width)
    lines = screen(rows, width, height, colour=False)
    assert len(lines) <= height and max(map(len, lines)) <= width
    left_out = len([row for row in rows if row]) > height
    assert ("more lines"[: width - 10] in lines[-1]) == left_out or width < 20


def test_colours_do_not_count_as_columns() -> None:
    row = [("good", Style.GOOD), (" plain", Style.PLAIN), (" bad", Style.BAD)]
    assert rendered(row, 100, colour=True) == "\x1b[32mgood\x1b[0m plain\x1b[31m bad\x1b[0m"
    assert rendered(row, 6, colour=True) == "\x1b[32mgood\x1b[0m p"
    assert rendered(row, 100, colour=False) == "good plain bad"
    assert re.sub("\x1b\\[[0-9]*m", "", rendered(row, 12, colour=True)) == "good plain b"


def test_a_bar_shows_the_budget_wherever_it_ends() -> None:
    def drawn(value: float) -> str:
        return rendered(bar(value, 200.0, 10), 10, colour=False)

    assert drawn(0.0) == "     │"
    assert drawn(100.0) == "███  │" or drawn(100.0) == "██   │"
    assert drawn(320.0) == "█████│██"
    assert drawn(2000.0) == "█████│███▶"


def test_a_sparkline_has_the_budget_in_its_middle() -> None:
    row = sparkline([0.0, 199.0, 201.0, 400.0, 9000.0, None], 200.0)
    assert "".join(piece for piece, _ in row) == "▁▄▅██ "
    assert [style for _, style in row[:3]] == [Style.GOOD, Style.GOOD, Style.BAD]


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0.4, "0 s"),
        (59.0, "59 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7200, "2 h 00 min"),
        (273_600, "3 d 04 h"),
    ],
)
def test_spans_are_told_in_two_units(seconds: float, says: str) -> None:
    assert span(seconds) == says


def test_a_server_that_is_away_is_told() -> None:
    """And why, however narrow the terminal is."""
    lines = screen(away(URL, "nobody answers (Connection refused)", 12.0, 80), 80, 24, colour=False)
    assert "away for 12 s" in lines[0] and "Connection refused" in lines[2]
    narrow = screen(away(URL, "nobody answers (Connection refused)", 12.0, 30), 30, 24, colour=False)
    assert narrow[2:4] == ["nobody answers (Connection", "refused)"]


def test_empty_rows_go_before_anything_that_is_said() -> None:
    rows = [[("a", Style.PLAIN)], [], [("b", Style.PLAIN)]]
    assert screen(rows, 10, 3, colour=False) == ["a", "", "b"]
    assert screen(rows, 10, 2, colour=False) == ["a", "b"]
    assert screen([*rows, *rows], 60, 2, colour=False) == ["a", "... 3 more lines; a taller window shows them"]


def test_a_busy_server_fits_a_terminal_of_24_lines() -> None:
    """With as much to say as there can be."""
    watched = Watched()
    for stage in Stage:
        for kind in (BlameKind.WAIT, BlameKind.SERVICE):
            watched.late(stage, kind, 0.1)
    watched.metrics.chunk_done("cpu", "llm", "started", 30.0)
    watched.metrics.chunk_done("cpu", "asr", "asr", 6.0)
    rows = frame(figures(watched.read(), None, 60.0), [100.0] * 9, URL, 80)
    assert not any("more lines" in line for line in screen(rows, 80, 24, colour=False))
