"""One turn and one long text: what the device does around them."""

from __future__ import annotations

import itertools

import pytest

from voicepipe.sim.experiment import Setting
from voicepipe.sim.one_turn import AFTER_MS, BEFORE_MS, HEARING, REPLY, TEXT, VOICE, Trace, trace_of


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    return {name: trace_of(name, 1, Setting()) for name in ("M0", "D3")}


def test_the_budget_is_missed_in_one_and_kept_in_the_other(traces: dict[str, Trace]) -> None:
    """With the same turn, the same text, and nobody else."""
    shared, ours = traces["M0"].felt_ms, traces["D3"].felt_ms
    assert shared is not None and ours is not None and shared > 300.0 and ours <= 200.0
    assert traces["M0"].text_ms == traces["D3"].text_ms < 0.0


def test_a_prompt_is_read_whole_or_in_pieces_that_fit(traces: dict[str, Trace]) -> None:
    """Half a second during which nothing else happens, or none longer than a piece of audio."""
    longest = {name: max(end - begin for begin, end in trace.spans[TEXT]) for name, trace in traces.items()}
    assert longest["M0"] > 400.0 and longest["D3"] < 50.0


@pytest.mark.parametrize("name", ["M0", "D3"])
def test_every_engine_has_its_spans_and_no_two_of_the_device_overlap(name: str, traces: dict[str, Trace]) -> None:
    """But answer and text in one step of a shared engine. All within what is shown."""
    spans = traces[name].spans
    assert list(spans) == [HEARING, REPLY, VOICE, TEXT] and all(spans.values())
    every = sorted({span for own in spans.values() for span in own})
    assert every[0][0] >= BEFORE_MS and max(end for _, end in every) <= AFTER_MS
    for (_, end), (begin, _) in itertools.pairwise(every):
        assert begin >= end - 1e-6
    batched = set(spans[REPLY]) & set(spans[TEXT])
    assert bool(batched) is (name == "M0")


def test_the_answer_is_heard_when_its_first_audio_has_been_made(traces: dict[str, Trace]) -> None:
    """A piece of audio ends before it, within the way to the client."""
    for trace in traces.values():
        assert trace.felt_ms is not None
        before = [end for _, end in trace.spans[VOICE] if 0.0 < end <= trace.felt_ms]
        assert before and trace.felt_ms - before[0] < 150.0
