"""A ledger becomes a model that has its lines, its scatter and its hand-offs."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from voicepipe.core.events import Load, WorkKind
from voicepipe.errors import ConfigError
from voicepipe.ledgers import chunk_entry, turn_entry
from voicepipe.sim.calibrate import Seen, calibrate, fitted
from voicepipe.sim.scene import Scene, play
from voicepipe.sim.service import TALK, load_service


def entry(kind: str, at: float, service_s: float, units: float, **more: Any) -> str:
    chunk = {
        "chunk": kind,
        "lane": "cpu",
        "queued": at,
        "started": at + 0.001,
        "finished": at + 0.001 + service_s,
        "whole": True,
        "variant": "",
        "units": units,
        "context": 0.0,
    }
    return json.dumps(chunk | more)


def ledger(count: int = 40) -> list[str]:
    kinds = ("final", "think", "speak")
    return [
        entry(kinds[index % 3], float(index), 0.02 + 0.01 * (index % 5), index % 5) for index in range(3 * count)
    ]


def test_the_line_is_found_through_noise_and_stalls() -> None:
    """One chunk in twenty takes ten times as long: it belongs to the tail, and does not lift the line."""
    chance = Random(3)
    samples = []
    for index in range(600):
        units, context = chance.uniform(1.0, 20.0), chance.uniform(0.0, 400.0)
        mean_s = 0.01 + 0.002 * units + 0.00005 * context
        stalls = 10.0 if index % 20 == 0 else 1.0
        samples.append(Seen(units, context, mean_s * chance.uniform(0.9, 1.1) * stalls))
    cost = fitted(WorkKind.THINK, "prefill", samples)
    assert cost.base_s == pytest.approx(0.01, rel=0.1)
    assert cost.per_unit_s == pytest.approx(0.002, rel=0.05)
    assert cost.per_context_s == pytest.approx(0.00005, rel=0.05)
    assert cost.ratios[50] == pytest.approx(1.0, abs=0.02) and cost.ratios[-1] > 9.0
    assert cost.ratios[94] < 1.2


def test_no_line_falls_with_what_there_is_to_do() -> None:
    """Noise over a narrow range of sizes may."""
    samples = [Seen(10.0 + index % 2, 0.0, 0.03 - 0.001 * (index % 2)) for index in range(40)]
    cost = fitted(WorkKind.FINAL, "", samples)
    assert cost.per_unit_s == 0.0 and cost.base_s == pytest.approx(0.0295, abs=0.0006)


def test_chunks_that_were_cut_off_or_had_nothing_to_do_teach_nothing() -> None:
    lines = ledger()
    spoiled = [entry("final", 1000.0 + index, 9.0, 1.0, whole=False) for index in range(50)]
    spoiled += [entry("speak", 2000.0 + index, 9.0, 0.0) for index in range(50)]
    assert calibrate(lines + spoiled).costs == calibrate(lines).costs


def test_hand_offs_are_told_apart() -> None:
    """A chunk that found the lane free shows the way to it, one that waited the way back as well."""
    lines = ledger()
    for index in range(40):
        at = 10_000.0 + 10 * index
        lines.append(entry("final", at, 0.05, 1.0))
        begun = at + 0.051 + 0.003
        lines.append(entry("final", at + 0.01, 0.05, 1.0, started=begun, finished=begun + 0.05))
    model = calibrate(lines)
    assert model.begin_s[10] == pytest.approx(0.001) and model.end_s[10] == pytest.approx(0.002)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "is no object"),
        (entry("final", 1.0, 0.1, 1.0, queued="soon"), "is no chunk's"),
        (entry("finally", 1.0, 0.1, 1.0), "is no chunk's"),
        (entry("final", 1.0, 0.1, 1.0, started=0.5), "times or sizes that cannot be"),
    ],
)
def test_a_line_that_is_none_of_a_ledgers_is_named(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        calibrate([*ledger(3), line])
    assert caught.value.field == "line 10"


def test_too_short_a_ledger_is_refused() -> None:
    """With what is missing and how much of it, and how to come by it."""
    lines = [entry(kind, index, 0.1, 1.0) for index in range(20) for kind in ("final", "think")]
    lines += [entry("speak", 30.0 + index, 0.1, 1.0, variant="first") for index in range(3)]
    with pytest.raises(ConfigError, match=r"5 more of speak \(3 seen\)\. To record more: voicepipe serve --ledger"):
        calibrate(lines)


def test_what_is_going_to_be_simulated_has_to_be_in_it() -> None:
    """Each variant of it, where the ledger tells variants apart; and texts are recorded in another way."""
    lines = ledger()
    with pytest.raises(ConfigError) as caught:
        calibrate(lines, needs=(*TALK, (WorkKind.GENERATE, "prefill")))
    missing = "8 more of hear (none seen), 8 more of partial (none seen), 8 more of generate (prefill) (none seen)."
    assert missing in caught.value.message and "/v1/chat/completions" in caught.value.message
    lines += [entry(kind, 500.0 + index, 0.1, 1.0) for index in range(8) for kind in ("hear", "partial")]
    assert not calibrate(lines, needs=TALK).lacks(TALK)
    apart = [line.replace('"variant": ""', '"variant": "prefill"') for line in lines]
    with pytest.raises(ConfigError, match=r"8 more of think \(decode\)"):
        calibrate(apart, needs=TALK)


def test_a_run_gives_the_model_back_that_it_was_made_with() -> None:
    """Its own ledger, through the server's format: line by line within some percent."""
    given = load_service("gpu")
    played = play(Scene(sessions=6.0, seconds=300.0, service=given, keeps_chunks=True))
    lines = [json.dumps(chunk_entry(*chunk)) for chunk in played.chunks]
    lines += [json.dumps(turn_entry("s", asked.record)) for asked in played.asked if asked.record is not None]
    model = calibrate(lines, manner=given.manner)
    for kind, load in (
        (WorkKind.PARTIAL, Load("", 1.5)),
        (WorkKind.THINK, Load("", 12, 200, "prefill")),
        (WorkKind.THINK, Load("", 4, 200, "decode")),
        (WorkKind.SPEAK, Load("", 30, 0, "first")),
    ):
        expected, found = (one.cost(kind, load.variant) for one in (given, model))
        middle = expected.ratios[len(expected.ratios) // 2]
        assert found.mean_s(load) == pytest.approx(expected.mean_s(load) * middle, rel=0.05)
        assert found.ratios[-1] == pytest.approx(expected.ratios[-1] / middle, rel=0.3)
    assert model.manner.write_tokens == given.manner.write_tokens
    assert model.begin_s[10] == pytest.approx(0.0001) and 0.0002 <= model.send_s[0] <= model.send_s[-1] <= 0.0012
