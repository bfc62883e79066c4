"""What is told of a turn that has ended."""

from __future__ import annotations

from voicepipe.core.events import Rung, Verdict


def test_verdicts_are_those_of_the_wire() -> None:
    """The first that fits wins, so their order counts."""
    assert [verdict.value for verdict in Verdict] == [
        "failed",
        "refused",
        "empty",
        "interrupted",
        "masked",
        "missed",
        "degraded",
        "met",
    ]


def test_rungs_are_named_from_the_cheapest_on() -> None:
    """As records and metrics name them."""
    assert [rung.value for rung in Rung] == [
        "short-clause",
        "no-second-pass",
        "small-model",
        "acknowledge",
        "filler",
    ]
