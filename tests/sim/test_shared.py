"""A shared engine in a scene: nothing is lost, alone it takes what chunks take, and texts block voice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from voicepipe.sim.arms import TUNED, arm
from voicepipe.sim.experiment import Setting
from voicepipe.sim.played import Played
from voicepipe.sim.scene import TextJobs, play
from voicepipe.sim.shared import shared
from voicepipe.sim.slots import Step
from voicepipe.sim.voice_scenes import calm_scene, felt_ms, measures

ENGINES = ("M0", "M1", "M2", "M3", "M4")


def played(name: str, texts: TextJobs | None = None, sessions: float = 3.0, seconds: float = 120.0) -> Played:
    scene = replace(calm_scene(5, Setting(), sessions, seconds), texts=texts)
    return play(arm(name, scene))


@pytest.mark.parametrize("name", ENGINES)
def test_every_lease_comes_back_and_every_text_is_counted(name: str) -> None:
    """However the run ends; what was written belongs to texts that were asked for."""
    found = played(name, TextJobs(0.2))
    assert set(found.leases.values()) == {0}
    texts = found.texts
    assert texts.done + texts.refused <= texts.asked and texts.done > 0
    assert 800 * texts.done <= texts.written_tokens <= 800 * (texts.asked - texts.refused)
    assert found.turns > 0


@pytest.mark.parametrize("name", ENGINES)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    """To the last bit."""
    assert played(name, TextJobs(0.1)) == played(name, TextJobs(0.1))


def test_a_single_caller_is_served_as_by_the_scheduler() -> None:
    """Steps of one reply take what its chunks take: medians within 5 %."""
    ours, theirs = played("D0", sessions=1.0), played("M0", sessions=1.0)
    one, other = felt_ms(ours.asked, 0.5), felt_ms(theirs.asked, 0.5)
    assert one is not None and other == pytest.approx(one, rel=0.05)


def test_a_prompt_that_is_read_whole_blocks_voice_and_one_in_chunks_less() -> None:
    """4,000 tokens are half a second; with deadlines nobody is late for them."""
    late = {}
    for name in ("M0", "M2", "M4"):
        found = played(name, TextJobs(0.1), seconds=400.0)
        late[name] = felt_ms(found.asked, 0.99)
    assert late["M0"] is not None and late["M2"] is not None and late["M4"] is not None
    assert late["M0"] > 400.0 > 250.0 > late["M4"]
    assert late["M2"] > late["M4"]


def test_the_device_is_never_busier_than_it_can_be() -> None:
    """Loads add up to less than one, texts to what they took."""
    found = played("M1", TextJobs(1.0))
    about = measures(found)
    assert about["load"] is not None and 0.8 < about["load"] <= 1.0


def test_too_many_tokens_are_refused_where_there_is_a_limit() -> None:
    """C2 turns texts away that M2 keeps waiting."""
    with_limit, without = played("C2", TextJobs(2.0)), played("M2", TextJobs(2.0))
    assert with_limit.texts.refused >= without.texts.refused
    assert TUNED["C2"].queued_tokens is not None


def test_steps_are_told_as_they_were_computed() -> None:
    """One after the other, none of them empty, and as long together as the engine's share of the load."""
    steps: list[tuple[float, float, Step]] = []
    scene = replace(calm_scene(5, Setting(), 3.0, 60.0), texts=TextJobs(0.1), machine=shared(TUNED["M2"]))
    quiet = play(scene)
    found = play(replace(scene, machine=shared(TUNED["M2"], lambda *step: steps.append(step))))
    assert found == quiet, "who listens changes nothing"
    ends = [0.0]
    for begin, end, step in steps:
        assert begin >= ends[-1] - 1e-9 and end > begin and list(step.sequences)
        ends.append(end)
    assert 0.2 < sum(end - begin for begin, end, _ in steps) / sum(found.busy_s.values()) < 1.0
