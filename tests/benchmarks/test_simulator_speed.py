"""What is measured is a run."""

from __future__ import annotations

import pytest
from simulator_speed import measure

from voicepipe.sim.service import load_service


@pytest.mark.parametrize("policy", ["none", "deadline"])
def test_rates_are_those_of_the_run(policy: str) -> None:
    point = measure(policy, 4.0, 60.0, load_service("gpu"), 1)
    assert point.policy == policy and point.lanes == 1 and point.turns > 5 and point.events > 20 * point.turns
    assert point.turns_per_s > 0 and point.simulated_per_s > 1.0
