"""Measures of a run add up."""

from __future__ import annotations

import pytest

from voicepipe.core.events import WorkKind
from voicepipe.sim.arms import arm
from voicepipe.sim.experiment import Setting
from voicepipe.sim.scene import play
from voicepipe.sim.voice_scenes import calm_scene, felt_ms, load_of, measures, service_of, shares, voice_load_of


def test_a_faster_device_takes_its_share_of_the_time() -> None:
    """Every cost, and nothing else."""
    slow, fast = service_of(Setting()), service_of(Setting(), 4.0)
    assert fast.cost(WorkKind.PARTIAL, "").base_s == pytest.approx(slow.cost(WorkKind.PARTIAL, "").base_s / 4)
    assert fast.manner == slow.manner and fast.send_s == slow.send_s


def test_outcomes_add_up() -> None:
    """Refused sessions' turns included."""
    played = play(arm("D1", calm_scene(2, Setting(), 8.0, 120.0), cap=2))
    found = shares(played)
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["refused"] > 0.3


def test_measures_of_a_device_for_few() -> None:
    """Nobody is late, loads agree, Little's law: session time is what admitted calls lasted."""
    played = play(arm("D0", calm_scene(2, Setting(), 1.0, 120.0)))
    found = measures(played)
    assert found["in_time"] == 1.0 and found["late_of_admitted"] == 0.0 and found["text_tokens_s"] == 0.0
    assert load_of(played) == voice_load_of(played) > 0.0
    middle, most = felt_ms(played.asked, 0.5), felt_ms(played.asked, 1.0)
    assert middle is not None and most is not None and 80.0 < middle <= most < 200.0
