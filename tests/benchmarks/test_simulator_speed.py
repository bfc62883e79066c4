"""What is measured is a run."""

from __future__ import annotations

import pytest
from simulator_speed import measure

from voicepipe.sim.experiment import Setting
from voicepipe.sim.voice_scenes import calm_scene


@pytest.mark.parametrize("name", ["D0", "M4", "O"])
def test_rates_are_those_of_the_run(name: str) -> None:
    point = measure(name, calm_scene(1, Setting(), 4.0, 60.0))
    assert point.arm == name and point.turns > 5 and point.events > 20 * point.turns
    assert 0 < point.kept <= point.turns and point.ms_per_turn > 0 and point.simulated_per_s > 1.0
