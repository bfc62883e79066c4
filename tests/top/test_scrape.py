"""Readings, their sums and quantiles, and what changed between two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from tests.top.conftest import Watched
from voicepipe.core.events import Verdict
from voicepipe.errors import ServerUnreachable
from voicepipe.top.scrape import Scrape, read


def test_values_sums_and_labels() -> None:
    watched = Watched()
    watched.metrics.chunk_done("cpu", "asr", "asr", 0.25)
    watched.metrics.chunk_done("cpu", "llm", "asr", 0.5)
    seen = watched.read()
    assert seen.value("voicepipe_budget_seconds") == 0.2
    assert seen.value("voicepipe_turns_total", verdict="met") == 0
    assert seen.value("voicepipe_no_such_thing") is None
    assert seen.by("voicepipe_device_busy_seconds_total", "class")["asr"] == 0.75
    assert seen.total("voicepipe_device_busy_seconds_total", stage="llm") == 0.5
    assert seen.labelled("voicepipe_device_busy_seconds_total", "stage", "class")["llm", "asr"] == 0.5
    assert (seen.label("voicepipe_build_info", "version"), seen.label("none", "version")) == ("1.2.3", "")


def test_a_quantile_lies_within_its_bucket() -> None:
    """On a line through it; beyond the last bound it is that bound; of nothing there is none."""
    watched = Watched()
    assert watched.read().quantile("voicepipe_felt_gap_seconds", 0.5) is None
    for felt_s in (0.16, 0.16, 0.16, 0.16):
        watched.turn(Verdict.MET, felt_s)
    seen = watched.read()
    assert seen.quantile("voicepipe_felt_gap_seconds", 0.5) == pytest.approx(0.1625)
    assert seen.quantile("voicepipe_felt_gap_seconds", 1.0) == pytest.approx(0.175)
    assert seen.mean("voicepipe_felt_gap_seconds") == pytest.approx(0.16)
    watched.turn(Verdict.MISSED, 60.0)
    assert watched.read().quantile("voicepipe_felt_gap_seconds", 0.99) == 5.0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.sampled_from([0.05, 0.5, 0.95, 1.0]))
def test_a_quantile_is_in_the_bucket_of_the_value_that_it_is_of(values: list[float], q: float) -> None:
    bounds = [0.1, 0.2, 0.5, 1.0, 5.0]
    registry = CollectorRegistry()
    histogram = Histogram("x", "Anything", buckets=bounds, registry=registry)
    for value in values:
        histogram.observe(value)
    text = generate_latest(registry).decode() + "voicepipe_turns_total 1\n"
    found = read(text, 0.0).quantile("x", q)
    rank = max(1, -(-len(values) * q // 1))
    exact = sorted(values)[int(rank) - 1]
    high = next((bound for bound in bounds if exact <= bound), 5.0)
    assert found is not None and found <= high + 1e-9


def test_what_was_counted_since() -> None:
    """Counters and histograms; a gauge is what it is now."""
    watched = Watched()
    watched.turn(Verdict.MET, 0.1)
    watched.metrics.session_started()
    before = watched.read(10.0)
    watched.turn(Verdict.MISSED, 0.4)
    change = watched.read(12.0).since(before)
    assert change.by("voicepipe_turns_total", "verdict")["met"] == 0
    assert change.by("voicepipe_turns_total", "verdict")["missed"] == 1
    assert change.mean("voicepipe_felt_gap_seconds") == pytest.approx(0.4)
    assert change.value("voicepipe_sessions_active") == 1


def test_after_a_new_start_all_is_new() -> None:
    """Less than before cannot be a change."""
    series = {"a_total": {frozenset[tuple[str, str]](): 5.0}}
    assert Scrape(1.0, {"a_total": {frozenset(): 3.0}}).since(Scrape(0.0, series)).total("a_total") == 3.0


@pytest.mark.parametrize("text", ["", "<html>hello</html>", "go_goroutines 7\n", "a{b=\n"])
def test_what_is_no_server_of_ours_is_told(text: str) -> None:
    with pytest.raises(ServerUnreachable, match="no voicepipe server"):
        read(text, 0.0)
