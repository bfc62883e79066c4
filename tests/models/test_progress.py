from __future__ import annotations

import io

import pytest

from voicepipe.models import Progress, TerminalReporter, render, size_text


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def fetch(done: int, total: int = 100_000_000, stage: str = "fetch") -> Progress:
    return Progress("toy", stage, done, total, "package index: toy 1.0")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (28_376, "28 kB"), (70_653_446, "71 MB"), (1_240_000_000, "1.2 GB")],
)
def test_size_text(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_render_draws_a_bar_that_fills_the_width() -> None:
    line = render(fetch(50_000_000), 60)
    assert line == "toy: fetching [" + "#" * 12 + "." * 13 + "]  50% 50.0/100.0 MB"
    assert len(line) == 60


@pytest.mark.parametrize("stage", ["wait", "fetch", "unpack", "verify", "done"])
def test_render_keeps_to_the_width(stage: str) -> None:
    for width in range(1, 120):
        line = render(fetch(33_333_333, stage=stage), width)
        assert len(line) <= width
        assert "\n" not in line


def test_render_gives_up_the_bar_first_and_the_counts_next() -> None:
    assert render(fetch(50_000_000), 34) == "toy: fetching  50% 50.0/100.0 MB"
    assert render(fetch(50_000_000), 20) == "toy: fetching  50%"


def test_nothing_to_do_is_all_done() -> None:
    assert Progress("toy", "fetch", 0, 0).fraction == 1.0


def test_a_terminal_gets_the_size_first_and_one_line_that_redraws() -> None:
    stream = Tty()
    reporter = TerminalReporter(stream, width=60)
    for done in (0, 50_000_000, 100_000_000):
        reporter(fetch(done))
    reporter(fetch(100_000_000, stage="verify"))
    reporter(fetch(100_000_000, stage="done"))
    lines = stream.getvalue().split("\n")
    assert lines[0] == "toy: 100 MB to fetch (package index: toy 1.0)"
    assert len(lines) == 3 and lines[2] == ""
    drawn = lines[1].split("\r")
    assert "  0%" in drawn[1] and " 50%" in drawn[2] and "100%" in drawn[3]
    assert drawn[-1].rstrip() == "toy: ready 100 MB"
    assert len(drawn[-1]) >= len(drawn[-2].rstrip())  # nothing of the longer line is left


def test_a_log_gets_sparse_lines() -> None:
    stream = io.StringIO()
    reporter = TerminalReporter(stream)
    for percent in range(101):
        reporter(fetch(percent * 1_000_000))
        reporter(fetch(percent * 1_000_000))
    for stage in ("unpack", "verify", "done"):
        reporter(fetch(100_000_000, stage=stage))
    lines = stream.getvalue().splitlines()
    assert [line.split("] ")[-1].split("%")[0].strip() for line in lines[1:5]] == [
        "25",
        "50",
        "75",
        "100",
    ]
    assert lines[0].startswith("toy: 100 MB to fetch") and lines[5] == "toy: ready 100 MB"
    assert len(lines) == 6
    assert "\r" not in stream.getvalue()


def test_a_second_source_is_announced() -> None:
    stream = io.StringIO()
    reporter = TerminalReporter(stream)
    reporter(fetch(0))
    reporter(Progress("toy", "fetch", 0, 2_000_000, "model hub: org/toy"))
    assert stream.getvalue().splitlines()[1] == "toy: 2 MB to fetch (model hub: org/toy)"


def test_finish_closes_the_line_once() -> None:
    stream = Tty()
    reporter = TerminalReporter(stream, width=60)
    reporter(fetch(10_000_000))
    reporter.finish()
    reporter.finish()
    assert stream.getvalue().endswith("MB\n")
    assert stream.getvalue().count("\n") == 2


def test_a_terminal_without_a_size_is_80_wide() -> None:
    stream = Tty()
    TerminalReporter(stream)(fetch(10_000_000))
    assert len(stream.getvalue().split("\r")[-1]) == 79
