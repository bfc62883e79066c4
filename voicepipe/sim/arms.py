"""The arms that voice experiments compare, each as what it changes in a scene.

The device, what chunks take, the calls and the texts that are asked for are the same for all of an experiment.

    M0      one engine for voice and texts, first come, first served; prompts are read whole
    M1      voice goes first in its queue, and takes memory from texts where it is short
    M2      and prompts are read in chunks
    M3      and voice takes a slot from a text where none is free
    M4      and everything on the device goes by deadline, texts taking the slack there is: the strongest rival
    C1      M2, and sessions are admitted by the gradient of latency
    C2      M2, and what finds too many tokens waiting is refused
    C3, C4  M2, and sessions are admitted by additive increase and multiplicative decrease, or as TCP Vegas does it
    C5, C6  M2, and sessions are admitted up to a number, or at a rate
    D0      a device for voice alone that admits everybody; texts have to be made on another one
    D1      and admits a number of sessions
    D2      and admits as long as turns can be expected to be in time
    D3      D2, and texts run in the slack of that device: what voicepipe does
    D4..D7  D0, and sessions are admitted at a rate, by AIMD, by the gradient of latency, or as TCP Vegas does it
    D8      D3 where deadlines are enforced: a turn without content at its deadline is refused, and sessions are let
            in as long as no more than three turns in a hundred are to be expected to be
    O       not an arm of its own: hindsight, which refuses single questions (`voicepipe.sim.clairvoyant`)

Policies are the server's own (`core.policies`, `core.limits`), by their configured names. Those that need to be
told what the device carries are told: C5 and D1 admit so many sessions, C6 and D4 so many a minute that as many
would be under way.

`TUNED` holds what rivals are given: common settings to begin with. `benchmarks/tune_rivals.py` tries each over a
grid, on seeds that no experiment reports (9001 and up), and names what is best for the share of turns in time, and
among those within half a per cent of it what makes most tokens of texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from voicepipe.config import AdmissionConfig, PolicyName
from voicepipe.sim.caller import mean_session_s
from voicepipe.sim.experiment import Row
from voicepipe.sim.scene import Scene
from voicepipe.sim.shared import shared
from voicepipe.sim.slots import Rules
from voicepipe.sim.voice_scenes import ONE_X

TUNED: Mapping[str, Rules] = {
    "M0": Rules(slots=16),
    "M1": Rules(slots=16, priority=True),
    "M2": Rules(slots=16, priority=True, chunk_tokens=128),
    "M3": Rules(slots=16, priority=True, chunk_tokens=128, preempts=True),
    "M4": Rules(slots=16, priority=True, chunk_tokens=512, preempts=True, by_deadline=True),
    "C1": Rules(slots=16, priority=True, chunk_tokens=128),
    "C2": Rules(slots=16, priority=True, chunk_tokens=128, queued_tokens=8_000),
    "C3": Rules(slots=16, priority=True, chunk_tokens=128),
    "C4": Rules(slots=16, priority=True, chunk_tokens=128),
    "C5": Rules(slots=16, priority=True, chunk_tokens=128),
    "C6": Rules(slots=16, priority=True, chunk_tokens=128),
}
DEDICATED = ("D0", "D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8")
ARMS = (*TUNED, *DEDICATED)
POLICIES: Mapping[str, PolicyName] = {
    "C1": "gradient",
    "C3": "aimd",
    "C4": "vegas",
    "C5": "count",
    "C6": "token-bucket",
    "D1": "count",
    "D2": "deadline",
    "D3": "deadline",
    "D4": "token-bucket",
    "D5": "aimd",
    "D6": "gradient",
    "D7": "vegas",
    "D8": "deadline",
}
"""Of arms that do not let everybody in."""
ENFORCED_LATE = 0.03
"""Turns that D8 may have to refuse."""
EVERYBODY = AdmissionConfig(policy="none")
CARRIED = round(ONE_X)
"""Sessions at a time, for those that have to be told."""
ORACLE = "O"

_SHARED_M2 = "shared engine, voice first, prompts in chunks, sessions admitted"
WORDS: Mapping[str, str] = {
    "M0": "shared engine, first come, first served",
    "M1": "shared engine, voice first in the queue",
    "M2": "shared engine, voice first, prompts in chunks",
    "M3": "shared engine, voice first, prompts in chunks, slots taken from texts",
    "M4": "shared engine, all by deadline, texts in the slack",
    "C1": f"{_SHARED_M2} by the gradient of latency",
    "C2": "shared engine, voice first, prompts in chunks, a limit on waiting tokens",
    "C3": f"{_SHARED_M2} by AIMD",
    "C4": f"{_SHARED_M2} by TCP Vegas",
    "C5": f"{_SHARED_M2} up to a number",
    "C6": f"{_SHARED_M2} at a rate",
    "D0": "device for voice, everybody let in",
    "D1": "device for voice, admission up to a number",
    "D2": "device for voice, admission by deadline",
    "D3": "voicepipe: admission by deadline, texts in the slack",
    "D4": "device for voice, admission at a rate",
    "D5": "device for voice, admission by AIMD",
    "D6": "device for voice, admission by the gradient of latency",
    "D7": "device for voice, admission by TCP Vegas",
    "D8": "voicepipe, deadlines enforced: turns that would be late are refused",
    "O": "oracle: knows beforehand what turns will take",
}
"""What a picture calls an arm, so that it can be read without this page."""


def called(name: str) -> str:
    """The arm's name and what it is; any other name is what it is."""
    return f"{name}: {WORDS[name]}" if name in WORDS else name


def in_words(rows: Sequence[Row]) -> list[Row]:
    """With arms called as pictures call them."""
    return [{**row, "arm": called(str(row["arm"]))} for row in rows]


def arm(name: str, scene: Scene, cap: int = CARRIED) -> Scene:
    """`cap`: sessions that arms take which have to be told."""
    policy = POLICIES.get(name, "none")
    if name in TUNED:
        return admitted_by(policy, replace(scene, machine=shared(TUNED[name])), cap)
    assert name in DEDICATED, name
    if name == "D8":
        return replace(scene, admission=AdmissionConfig(policy=policy, late=ENFORCED_LATE), enforcement="enforce")
    return admitted_by(policy, scene if name == "D3" else replace(scene, texts=None), cap)


def admitted_by(policy: PolicyName, scene: Scene, cap: int = CARRIED) -> Scene:
    if policy == "count":
        return replace(scene, admission=AdmissionConfig(policy=policy), max_sessions=cap)
    if policy == "token-bucket":
        per_minute = max(1, round(60.0 * cap / mean_session_s(scene.habits)))
        return replace(scene, admission=AdmissionConfig(policy=policy, sessions_per_minute=per_minute))
    return replace(scene, admission=AdmissionConfig(policy=policy))
