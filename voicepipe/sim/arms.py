"""The arms that voice experiments compare, each as what it changes in a scene.

The device, what chunks take, the calls and the texts that are asked for are the same for all of an experiment.

    M0      one engine for voice and texts, first come, first served; prompts are read whole
    M1      voice goes first in its queue, and takes memory from texts where it is short
    M2      and prompts are read in chunks
    M3      and voice takes a slot from a text where none is free
    M4      and everything on the device goes by deadline, texts taking the slack there is: the strongest rival
    C1      M2, and sessions are admitted by the gradient of latency
    C2      M2, and what finds too many tokens waiting is refused
    D0      a device for voice alone that admits everybody; texts have to be made on another one
    D1      and admits a number of sessions
    D2      and admits as long as turns can be expected to be in time
    D3      D2, and texts run in the slack of that device: what voicepipe does

`TUNED` holds what rivals are given: common settings to begin with. `benchmarks/tune_rivals.py` tries each over a
grid, on seeds that no experiment reports (9001 and up), and names what is best for the share of turns in time, and
among those within half a per cent of it what makes most tokens of texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from voicepipe.config import AdmissionConfig
from voicepipe.sim.scene import Scene
from voicepipe.sim.shared import shared
from voicepipe.sim.slots import Rules

TUNED: Mapping[str, Rules] = {
    "M0": Rules(slots=16),
    "M1": Rules(slots=16, priority=True),
    "M2": Rules(slots=16, priority=True, chunk_tokens=128),
    "M3": Rules(slots=16, priority=True, chunk_tokens=128, preempts=True),
    "M4": Rules(slots=16, priority=True, chunk_tokens=512, preempts=True, by_deadline=True),
    "C1": Rules(slots=16, priority=True, chunk_tokens=128),
    "C2": Rules(slots=16, priority=True, chunk_tokens=128, queued_tokens=8_000),
}
DEDICATED = ("D0", "D1", "D2", "D3")
ARMS = (*TUNED, *DEDICATED)
EVERYBODY = AdmissionConfig(policy="none")
BY_DEADLINE = AdmissionConfig(policy="deadline")


def arm(name: str, scene: Scene, cap: int = 1000) -> Scene:
    """`cap`: sessions that D1 takes."""
    if name in TUNED:
        admission = AdmissionConfig(policy="gradient") if name == "C1" else EVERYBODY
        return replace(scene, machine=shared(TUNED[name]), admission=admission)
    assert name in DEDICATED, name
    if name == "D3":
        return replace(scene, admission=BY_DEADLINE)
    scene = replace(scene, texts=None)
    if name == "D1":
        return replace(scene, admission=AdmissionConfig(policy="count"), max_sessions=cap)
    return replace(scene, admission=EVERYBODY if name == "D0" else BY_DEADLINE)
