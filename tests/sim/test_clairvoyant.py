"""The oracle: what fits by the earliest deadline, and what it then does for real."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

from voicepipe.sim.arms import EVERYBODY
from voicepipe.sim.caller import draw_calls
from voicepipe.sim.clairvoyant import Fitting, Need, in_time, let_in
from voicepipe.sim.experiment import Setting
from voicepipe.sim.scene import play
from voicepipe.sim.voice_scenes import CALM, calm_scene, measures


def test_by_hand() -> None:
    """Two that come at once and take 70 ms are both in time within 150, a third is not."""
    two = [Need(0.0, 0.15, 0.07, call) for call in range(2)]
    assert in_time(two) and not in_time([*two, Need(0.0, 0.15, 0.07, 2)])
    assert in_time([Need(0.0, 1.0, 0.5, 0), Need(0.1, 0.2, 0.1, 1)])  # the urgent one interrupts
    assert not in_time([Need(0.0, 0.55, 0.5, 0), Need(0.1, 0.2, 0.1, 1)])


def test_whatever_some_order_achieves_it_achieves() -> None:
    """Earliest deadline first is optimal: against every order of five that all are ready at once."""
    chance = Random(1)
    for _ in range(200):
        needs = [Need(0.0, chance.uniform(0.1, 1.0), chance.uniform(0.01, 0.3), n) for n in range(5)]

        def works(order: tuple[Need, ...]) -> bool:
            now = 0.0
            for need in order:
                now += need.service_s
                if now > need.due + 1e-12:
                    return False
            return True

        assert in_time(needs) == any(works(order) for order in permutations(needs))


def test_only_what_is_near_is_asked() -> None:
    """A turn much later does not meet it."""
    fitting = Fitting()
    fitting.take([Need(0.0, 0.15, 0.1, 0), Need(100.0, 100.15, 0.1, 0)])
    assert not fitting.fits([Need(0.02, 0.17, 0.1, 1)]) and fitting.fits([Need(50.0, 50.15, 0.1, 1)])


def test_what_it_lets_in_is_in_time() -> None:
    """On the real scheduler, with twice as many callers as the device carries: fewer are late than of all."""
    scene = calm_scene(4, Setting(), 14.0, 540.0)
    calls = draw_calls(14.0, 600.0, CALM, scene.service.noticed_s, Random("4 calls"))
    taken = let_in(scene, calls)
    assert 0 < len(taken) < len(calls)
    chosen = tuple(call for at, call in enumerate(calls) if at in taken)
    all_of_them = measures(play(replace(scene, admission=EVERYBODY, calls=calls)))
    found = measures(play(replace(scene, admission=EVERYBODY, calls=chosen)))
    late, everybody_late = found["late_of_admitted"], all_of_them["late_of_admitted"]
    assert late is not None and everybody_late is not None and 0.0 <= late < everybody_late
