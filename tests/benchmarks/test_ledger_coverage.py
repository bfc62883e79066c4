"""Coverage out of a ledger: what counts as kept, and what counts at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.ledger_coverage import (
    ABOUT,
    FEWEST,
    add_hindsight,
    by_key,
    by_stage,
    finish_errors,
    line,
    read,
    row,
)

NAMES = {
    "class": "started",
    "lane": "cpu",
    "model": "m",
    "variant": "decode",
    "whole": True,
    "units": 1,
    "context": 0,
}


def chunk(service_s: float, bound: float | None, **more: Any) -> dict[str, Any]:
    return {"chunk": "think", "started": 1.0, "finished": 1.0 + service_s, "bound": bound, **NAMES, **more}


def test_bounds_are_kept_by_whole_chunks_and_broken_by_cut_ones_too() -> None:
    """A short chunk that was cut off says nothing; one without a bound was promised nothing."""
    chunks = [
        *(chunk(0.5, 1.0), chunk(1.0, 2.0), chunk(0.25, 0.75), chunk(2.0, 1.0)),
        *(chunk(0.1, 1.0, whole=False), chunk(3.0, 1.0, whole=False), chunk(1.0, None)),
    ]
    ((key, found),) = by_key(chunks).items()
    told = row(key, found)
    assert told["coverage"] == 0.6
    assert told["bound"] == 2.0
    assert (told["n"], told["cut"], told["over"], told["unpriced"]) == (7, 2, 1, 1)


def test_hindsight_is_the_multiple_of_the_mean_that_holds_for_99_in_100() -> None:
    """A hundred chunks of 10 ms, and one of 30 among them that no constant bound has to cover: two of them it has.
    Of fewer chunks nothing is said."""
    for stalls, least in ((1, 1.0), (2, 3.0)):
        chunks = [chunk(0.03 if 50 <= number < 50 + stalls else 0.01, 0.05) for number in range(FEWEST + 1)]
        add_hindsight(chunks)
        told = row(("think", "decode", "m", "cpu"), chunks)
        assert (told["bound"], told["least"]) == (5.0, pytest.approx(least, rel=0.05))
    few = [chunk(0.01, 0.05) for _ in range(FEWEST)]  # the first has no mean
    add_hindsight(few)
    assert row(("think", "decode", "m", "cpu"), few)["least"] is None


def test_each_group_is_told_in_words() -> None:
    """Also that of all kinds of a stage and model, which has no words of its own."""
    told = row(("think", "cold-decode", "m", "cpu"), [chunk(0.01, 0.05)])
    assert (told["stage"], told["kind"], told["what"]) == ("llm", "think/cold-decode", ABOUT["think/cold-decode"])
    assert row(("llm", "", "m", "cpu"), [chunk(0.01, 0.05)])["kind"] == "all"
    assert line(told).split()[-7:] == ["1.0", "5.0", "10.0", "10.0", "0", "0", "0"]  # "least" is empty


def test_reading_ahead_counts_as_reading() -> None:
    """As the cost model fits it."""
    keys = by_key([chunk(1.0, 1.0, variant="prefill"), chunk(1.0, 1.0, chunk="warm", variant="prefill")])
    assert [len(chunks) for chunks in keys.values()] == [2]


def test_a_stage_and_model_are_one_row_too() -> None:
    """Whatever the kind of chunk; a clause that had been made before took no time, and was promised none."""
    chunks = [
        *(chunk(1.0, 1.0), chunk(1.0, 1.0, chunk="warm"), chunk(1.0, 1.0, chunk="speak", variant="first")),
        chunk(0.0, None, chunk="speak", variant="made"),
    ]
    assert [(key[0], len(found)) for key, found in by_stage(chunks).items()] == [("llm", 2), ("tts", 1)]


def test_expected_finishes_are_held_against_the_first_content() -> None:
    """Of turns that had any."""
    forecasts = [{"stage": "llm", "predicted_finish_ms": 150.0}, {"stage": "tts", "predicted_finish_ms": 210.0}]
    spoken = {"instants": {"sent": 200.0}, "slack": forecasts}
    silent = {"instants": {"sent": None}, "slack": forecasts}
    assert finish_errors([spoken, silent]) == {"llm": -50.0, "tts": 10.0}


@pytest.mark.parametrize("content", [None, b"\xff\x00", b"[1, 2", b"[]\n", b'{"verdict": "met"}\n'])
def test_what_is_no_ledger_is_said_to_be_none(tmp_path: Path, content: bytes | None) -> None:
    """Not there, not text, not JSON, not its objects, without a chunk."""
    path = tmp_path / "ledger.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=r"ledger\.jsonl"):
        read(path)
