"""Whole sessions in virtual time, 50 ms slower at one place: the blame names the place and the kind of time.

A first call goes undisturbed and sets the plan: its stages are the shares, its felt gap is the budget. In the
second one 50 ms are added at one chunk, at the socket or at the client, and whatever that turn was late by must be
found there. Batches have tests of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from tests import virtual
from tests.driving import PACKET_S, Caller, FaultyVad, House, engines, open_house, visit
from voicepipe.chunk import Call, Outcome
from voicepipe.config import ScriptedConfig
from voicepipe.core.blame import shares_of
from voicepipe.core.events import BlameKind, Stage, TurnRecord, Verdict, Work, WorkClass, WorkKind
from voicepipe.core.forecast import Measured
from voicepipe.device import Device
from voicepipe.wire import messages as wire
from voicepipe.wire.native import decode_server

ADDED_S = 0.05
SERVICE_S = 0.07
"""Longer than any chunk of the engines here: so much is known to be needed, and half as much again is granted."""
REPORT_S = 0.1
OUTPUT_RATE_HZ = 24_000
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
        self.price: Callable[[Work], Work] = lambda work: work
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
                work = self.price(work)
                call = inject(self, work, call)
        if self.listening:
            self.submitted.append((work.kind, asyncio.get_running_loop().time()))
        super().submit(work, call, blocking=blocking, answer=answer, **others)

    def occupy(self, kind: WorkKind, klass: WorkClass) -> None:
        """Somebody else's chunk takes the lane first."""
        work = Work(next(self._foreign), "somebody", 1, 1, 0, kind, klass)
        super().submit(work, lambda: asyncio.sleep(ADDED_S), blocking=False, answer=lambda outcome: None)


def service(device: Tampered, work: Work, call: Call) -> Call:
    return lasting(ADDED_S, call)


def lasting(seconds: float, call: Call) -> Call:
    async def slower() -> Any:
        await asyncio.sleep(seconds)
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


def up_to_the_bound(device: Tampered, work: Work, call: Call) -> Call:
    """All that was planned for it, and no more."""
    loop = asyncio.get_running_loop()

    async def slower() -> Any:
        began = loop.time()
        result = await call()
        await asyncio.sleep(work.bound_s - (loop.time() - began))
        return result

    return slower


def beyond_the_bound(device: Tampered, work: Work, call: Call) -> Call:
    return service(device, work, up_to_the_bound(device, work, call))


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
    operating_point: str = "balanced"
    """At `fast` the level may end a turn whose ears are slow."""
    slow_socket: bool = False
    playing_late_s: float | None = None
    """The client reports so late that it plays; None: it reports nothing."""
    just_asked: bool = False
    """The client asks for the commit with its last packet, before that has been listened to."""


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
            if armed is not None and armed[1] in (up_to_the_bound, beyond_the_bound):
                device.price = lambda work: priced(house, work)
            budget_s = 10.0 if plan is None else plan.budget_s
            query = {"budget_ms": f"{1000 * budget_s:.3f}"}
            caller = await visit(house, lambda caller: speak(caller, scene, device), query=query)
            (record,) = caller.records
            return Result(record, device.submitted)

    return virtual.run(main())


async def speak(caller: Caller, scene: Scene, device: Tampered) -> None:
    if scene.slow_socket:
        slow_down_audio(caller)
    if scene.playing_late_s is not None:
        report_playback(caller, scene.playing_late_s)
    await caller.start(turn_taking=scene.turn_taking, operating_point=scene.operating_point)
    await caller.pause(0.5)
    await caller.speak(SPEECH_S)
    device.listening = True
    if scene.just_asked:
        await asyncio.gather(caller.speak(PACKET_S), caller.send(wire.InputCommit()))
    elif scene.turn_taking == "manual":
        await caller.send(wire.InputCommit())
    await caller.pause_until(wire.TurnEnded)
    await caller.end()


def priced(house: House, work: Work) -> Work:
    """With the bound that a device has which knows the engines' times."""
    assert work.load is not None
    forecaster = house.services.forecaster
    forecaster.seed([Measured(work.kind, work.load, SERVICE_S)])
    return forecaster.price(work, work.load)


def report_playback(caller: Caller, late_s: float) -> None:
    """The player begins so late, and tells every 100 ms what it has played."""
    send = caller.server_side.send
    sent = count()

    async def play(epoch: int) -> None:
        await asyncio.sleep(late_s)
        for played in range(1, 6):
            await asyncio.sleep(REPORT_S)
            await caller.send(wire.Playback(epoch, round(played * REPORT_S * OUTPUT_RATE_HZ)))

    async def and_play(data: str | bytes) -> None:
        await send(data)
        if isinstance(data, bytes) and next(sent) == 0:
            frame = decode_server(data)
            assert isinstance(frame, wire.AudioFrame)
            caller.playing = asyncio.create_task(play(frame.epoch))  # type: ignore[attr-defined]

    caller.server_side.send = and_play  # type: ignore[method-assign]


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


def deciding(result: Result, mark: str) -> Place:
    """The frame in whose chunk it was decided that the speech had ended, or the turn."""
    at = getattr(result.record.instants, mark)
    heard = [queued for work, queued in result.submitted if work is WorkKind.HEAR and queued <= at]
    return Place(WorkKind.HEAR, len(heard) - 1)


EARS = pytest.mark.parametrize(
    ("scene", "mark"),
    [(Scene(QUICK), "commit"), (Scene(SLOW), "soft_end"), (Scene(SLOW, "manual", just_asked=True), "soft_end")],
    ids=["the silence that commits", "the soft end of a slow turn", "the last packet before a commit"],
)


@EARS
@pytest.mark.parametrize("kind", INJECTIONS)
def test_what_slows_the_ears_is_blamed(kind: BlameKind, scene: Scene, mark: str) -> None:
    """What holds up the frame that decides is not the patience that was waited for it."""
    undisturbed = act(scene)
    armed = deciding(undisturbed, mark), INJECTIONS[kind]
    late = act(scene, armed, planned(undisturbed.record)).record
    check(scene, undisturbed.record, late, Stage.ENDPOINT, kind)


def test_ears_that_were_slow_before_the_frame_that_decides_hold_it_up() -> None:
    """The frame before took 50 ms longer than it came ahead: this one waits for the rest of that."""
    scene = Scene(QUICK)
    undisturbed = act(scene)
    commit = deciding(undisturbed, "commit")
    times = [at for work, at in undisturbed.submitted if work is WorkKind.HEAR]
    ahead_s = times[commit.number] - times[commit.number - 1]
    assert 0.0 < ahead_s < ADDED_S

    def much_slower(device: Tampered, work: Work, call: Call) -> Call:
        return service(device, work, lasting(ahead_s, call))

    armed = Place(WorkKind.HEAR, commit.number - 1), much_slower
    late = act(scene, armed, planned(undisturbed.record)).record
    check(scene, undisturbed.record, late, Stage.ENDPOINT, BlameKind.SERVICE)


def test_patience_is_the_endpoints_own() -> None:
    """A turn that is waited out for longer than was planned, by ears that are as quick as ever."""
    undisturbed = act(Scene(QUICK)).record
    late = act(Scene(QUICK, operating_point="safe"), plan=planned(undisturbed)).record
    found = late.blame
    assert late.felt_estimate_s is not None and undisturbed.felt_estimate_s is not None
    assert found is not None and (found.stage, found.kind) == (Stage.ENDPOINT, BlameKind.ENDPOINT)
    longer_s = late.felt_estimate_s - undisturbed.felt_estimate_s
    assert found.over_s == pytest.approx(longer_s, abs=1e-3) and longer_s > ADDED_S


@pytest.mark.parametrize("stage", [Stage.ENDPOINT, *STAGES])
def test_a_chunk_that_takes_longer_than_its_bound_is_the_estimators_fault(stage: Stage) -> None:
    """50 ms more than planned at 99 %; as much as that was planned for, and has been used up."""
    scene = Scene(SLOW)
    place = deciding(act(scene), "soft_end") if stage is Stage.ENDPOINT else Place(STAGES[stage])
    undisturbed = act(scene, (place, up_to_the_bound)).record
    late = act(scene, (place, beyond_the_bound), planned(undisturbed)).record
    check(scene, undisturbed, late, stage, BlameKind.ESTIMATOR)


@pytest.mark.parametrize("config", [QUICK, SLOW], ids=["quick", "slow"])
def test_a_socket_that_takes_its_time_is_blamed(config: ScriptedConfig) -> None:
    undisturbed = act(Scene(config)).record
    late = act(Scene(config, slow_socket=True), plan=planned(undisturbed)).record
    check(Scene(config), undisturbed, late, Stage.SEND, BlameKind.WAIT)


@pytest.mark.parametrize("config", [QUICK, SLOW], ids=["quick", "slow"])
def test_a_client_that_plays_late_is_blamed(config: ScriptedConfig) -> None:
    """As its reports of playback show it."""
    scene = Scene(config, playing_late_s=0.0)
    undisturbed = act(scene).record
    late = act(replace(scene, playing_late_s=ADDED_S), plan=planned(undisturbed)).record
    check(scene, undisturbed, late, Stage.SEND, BlameKind.CLIENT)
