"""Whole sessions in virtual time, 50 ms slower at one place: the blame names the place and the kind of time.

A first call goes undisturbed and sets the plan: its stages are the shares, its felt gap is the budget. In the
second one 50 ms are added at one chunk, or at the socket, and whatever that turn was late by must be found there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from tests import virtual
from tests.driving import Caller, FaultyVad, engines, open_house, visit
from voicepipe.config import ScriptedConfig
from voicepipe.core.blame import shares_of
from voicepipe.core.events import BlameKind, Stage, TurnRecord, Verdict, Work, WorkClass, WorkKind
from voicepipe.device import Call, Device, Outcome
from voicepipe.wire import messages as wire

ADDED_S = 0.05
SPEECH_S = 0.16
"""Too short to be decoded before the detector notices the pause: a decode that had begun in the endpoint's time
would be on the path for its last part only."""
PLACEMENT = {
    WorkKind.HEAR: "ears",
    WorkKind.PARTIAL: "asr",
    WorkKind.FINAL: "asr",
    WorkKind.WARM: "llm",
    WorkKind.THINK: "llm",
    WorkKind.SPEAK: "tts",
}
LANES = {"ears": 1, "asr": 1, "llm": 1, "tts": 1}
"""A lane to each stage: on a shared one a chunk begins where the last one ends, and nothing comes between."""

QUICK = ScriptedConfig(reply="Yes.", asr_ms=5, llm_prefill_ms=5, llm_token_ms=5, tts_ms=5)
"""The reply is ready when its turn is committed."""
SLOW = ScriptedConfig(reply="Yes.", asr_ms=60, llm_prefill_ms=60, llm_token_ms=20, tts_ms=60)
"""Every stage is on the path: the reply begins with the final text, and is made long after the commit."""


@dataclass(frozen=True, slots=True)
class Place:
    """The n-th chunk of this kind, from 0, after the speech has ended."""

    kind: WorkKind
    number: int = 0


Inject = Callable[["Tampered", Work, Call], Call]
"""What happens as a chunk is submitted; gives what is run in its stead."""


class Tampered(Device):
    """Adds something at one chunk."""

    def __init__(self) -> None:
        super().__init__(PLACEMENT, LANES)
        self.armed: tuple[Place, Inject] | None = None
        self.submitted: list[tuple[WorkKind, float]] = []
        """Since the speech ended."""
        self.listening = False
        self._foreign = count(1)

    def submit(
        self, work: Work, call: Call, *, blocking: bool, answer: Callable[[Outcome], None], **others: Any
    ) -> None:
        if self.listening and self.armed is not None:
            place, inject = self.armed
            so_far = sum(kind is place.kind for kind, _ in self.submitted)
            if work.kind is place.kind and so_far == place.number:
                assert not blocking
                call = inject(self, work, call)
        if self.listening:
            self.submitted.append((work.kind, asyncio.get_running_loop().time()))
        super().submit(work, call, blocking=blocking, answer=answer, **others)

    def occupy(self, kind: WorkKind, klass: WorkClass) -> None:
        """Somebody else's chunk takes the lane first."""
        work = Work(next(self._foreign), "somebody", 1, 1, 0, kind, klass)
        super().submit(work, lambda: asyncio.sleep(ADDED_S), blocking=False, answer=lambda outcome: None)


def service(device: Tampered, work: Work, call: Call) -> Call:
    async def slower() -> Any:
        await asyncio.sleep(ADDED_S)
        return await call()

    return slower


def wait(device: Tampered, work: Work, call: Call) -> Call:
    device.occupy(work.kind, WorkClass.STARTED)
    return call


def blocking(device: Tampered, work: Work, call: Call) -> Call:
    device.occupy(work.kind, WorkClass.AHEAD)
    return call


def hand_off(device: Tampered, work: Work, call: Call) -> Call:
    """The loop stands still between giving the chunk its lane and its first instruction."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual.VirtualLoop)
    loop.call_soon(loop.advance, ADDED_S)
    return call


INJECTIONS: Mapping[BlameKind, Inject] = {
    BlameKind.SERVICE: service,
    BlameKind.WAIT: wait,
    BlameKind.BLOCKING: blocking,
    BlameKind.HAND_OFF: hand_off,
}
STAGES = {Stage.ASR: WorkKind.FINAL, Stage.LLM: WorkKind.THINK, Stage.TTS: WorkKind.SPEAK}


@dataclass(frozen=True, slots=True)
class Scene:
    config: ScriptedConfig
    turn_taking: str = "auto"
    slow_socket: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What an undisturbed turn takes."""

    budget_s: float
    shares: Mapping[Stage, float]


@dataclass(frozen=True, slots=True)
class Result:
    record: TurnRecord
    submitted: list[tuple[WorkKind, float]]


def act(scene: Scene, armed: tuple[Place, Inject] | None = None, plan: Plan | None = None) -> Result:
    """One spoken turn. Without a plan it has all the time in the world."""

    async def main() -> Result:
        device = Tampered()
        device.armed = armed
        async with open_house(engines(scene.config, vad=FaultyVad([])), device=device) as house:
            if plan is not None:
                house.services = replace(house.services, shares=plan.shares)
            budget_s = 10.0 if plan is None else plan.budget_s
            query = {"budget_ms": f"{1000 * budget_s:.3f}"}
            caller = await visit(house, lambda caller: speak(caller, scene, device), query=query)
            (record,) = caller.records
            return Result(record, device.submitted)

    return virtual.run(main())


async def speak(caller: Caller, scene: Scene, device: Tampered) -> None:
    if scene.slow_socket:
        slow_down_audio(caller)
    # At `fast` the level may end a turn whose ears are slow.
    await caller.start(turn_taking=scene.turn_taking, operating_point="balanced")
    await caller.pause(0.5)
    await caller.speak(SPEECH_S)
    device.listening = True
    if scene.turn_taking == "manual":
        await caller.send(wire.InputCommit())
    await caller.pause_until(wire.TurnEnded)
    await caller.end()


def slow_down_audio(caller: Caller) -> None:
    """The first frame of sound waits for the socket."""
    send = caller.server_side.send
    sent = count()

    async def slower(data: str | bytes) -> None:
        if isinstance(data, bytes) and next(sent) == 0:
            await asyncio.sleep(ADDED_S)
        await send(data)

    caller.server_side.send = slower  # type: ignore[method-assign]


def planned(record: TurnRecord) -> Plan:
    assert record.felt_estimate_s is not None
    stages = {stage: share.wait_s + share.service_s for stage, share in record.stages.items()}
    return Plan(record.felt_estimate_s + 1e-4, shares_of(stages))


def check(scene: Scene, undisturbed: TurnRecord, late: TurnRecord, stage: Stage, kind: BlameKind) -> None:
    found = late.blame
    assert late.felt_estimate_s is not None and undisturbed.felt_estimate_s is not None
    assert late.felt_estimate_s - undisturbed.felt_estimate_s == pytest.approx(ADDED_S, abs=0.005)
    assert late.verdict is Verdict.MISSED and found is not None
    assert (found.stage, found.kind) == (stage, kind)
    assert 0.045 <= found.over_s <= 0.055
    assert abs(found.unattributed_s) < 0.005


@pytest.mark.parametrize("turn_taking", ["auto", "manual"])
@pytest.mark.parametrize("scene", [QUICK, SLOW], ids=["quick", "slow"])
def test_a_turn_that_takes_what_was_planned_is_met(scene: ScriptedConfig, turn_taking: str) -> None:
    """So that what is added is all there is to blame."""
    one = Scene(scene, turn_taking)
    record = act(one, plan=planned(act(one).record)).record
    assert (record.verdict, record.blame) == (Verdict.MET, None)


@pytest.mark.parametrize("turn_taking", ["auto", "manual"])
@pytest.mark.parametrize("kind", INJECTIONS)
@pytest.mark.parametrize("stage", STAGES)
def test_what_slows_a_stage_is_blamed(stage: Stage, kind: BlameKind, turn_taking: str) -> None:
    """Slow engines, each on the path: a reply begun ahead of its commit, and one begun at it."""
    scene = Scene(SLOW, turn_taking)
    undisturbed = act(scene).record
    armed = Place(STAGES[stage]), INJECTIONS[kind]
    check(scene, undisturbed, act(scene, armed, planned(undisturbed)).record, stage, kind)


@pytest.mark.parametrize("kind", INJECTIONS)
def test_what_slows_the_ears_is_blamed_on_the_endpoint(kind: BlameKind) -> None:
    """Whatever held up the frame that decides: it was not known yet that the speech had ended."""
    scene = Scene(QUICK)
    undisturbed = act(scene)
    commit = undisturbed.record.instants.commit
    assert commit is not None
    heard = [at for work, at in undisturbed.submitted if work is WorkKind.HEAR and at <= commit]
    armed = Place(WorkKind.HEAR, len(heard) - 1), INJECTIONS[kind]
    late = act(scene, armed, planned(undisturbed.record)).record
    check(scene, undisturbed.record, late, Stage.ENDPOINT, BlameKind.ENDPOINT)


@pytest.mark.parametrize("config", [QUICK, SLOW], ids=["quick", "slow"])
def test_a_socket_that_takes_its_time_is_blamed(config: ScriptedConfig) -> None:
    undisturbed = act(Scene(config)).record
    late = act(Scene(config, slow_socket=True), plan=planned(undisturbed)).record
    check(Scene(config), undisturbed, late, Stage.SEND, BlameKind.WAIT)
