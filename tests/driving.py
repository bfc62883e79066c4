"""A scripted caller and the house it calls: whole sessions in virtual time.

A test writes what the caller does; `call` plays it against a session and afterwards checks what has to hold in
every session: one verdict per turn, nothing of a reply before its commit or after its end, every lease back, no
task left. What a test asserts itself is what is special about its case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
import numpy as np

from tests import virtual
from voicepipe.config import Config, LimitsConfig, ScriptedConfig
from voicepipe.connection import ConnectionClosed, MemoryConnection
from voicepipe.core.engine_health import HealthSettings
from voicepipe.core.events import Load, TurnRecord, Way, Work, WorkKind
from voicepipe.core.forecast import Forecaster, Measured
from voicepipe.core.scheduler import Scheduler
from voicepipe.core.turn import Turns
from voicepipe.device import Device
from voicepipe.engines.base import Context, Engines, Prompt, Samples, StepSize, Transcript, Window, whole_window
from voicepipe.engines.scripted import (
    ScriptedAsr,
    ScriptedGeneration,
    ScriptedLlm,
    ScriptedTts,
    ScriptedTurnModel,
    ScriptedVad,
)
from voicepipe.reception import serve_session
from voicepipe.recording import Tape
from voicepipe.services import Services
from voicepipe.wire import messages as wire
from voicepipe.wire.native import decode_server, encode_client

RATE_HZ = 16_000
PACKET_S = 0.02
LOUD = 0.2
"""Level of scripted speech, of full scale: -14 dBFS."""
PLACEMENT = {kind: "ears" if kind is WorkKind.HEAR else "main" for kind in WorkKind}
LANES = {"main": 1, "ears": 1}

WARM_STEPS = 2
"""Steps of the scripted model that read the instructions when a session opens."""

M = TypeVar("M")


# --- engines that misbehave ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hang:
    """The chunk takes so much longer. Seconds."""

    seconds: float


Fault = Exception | Hang | None
"""What becomes of one chunk; None: nothing, it works."""


class Faults:
    """One fault per chunk, in order; when they are used up, everything works."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults: Iterator[Fault] = iter(faults)
        self.chunks = 0

    async def around(self, chunk: Callable[[], Any]) -> Any:
        self.chunks += 1
        fault = next(self._faults, None)
        if isinstance(fault, Exception):
            raise fault
        if isinstance(fault, Hang):
            await asyncio.sleep(fault.seconds)
        value = chunk()
        return await value if isinstance(value, Awaitable) else value


class _Wrapped:
    """`inner`, whose method `chunk` meets the faults."""

    def __init__(self, inner: Any, chunk: str, faults: Faults) -> None:
        self._inner = inner
        self._chunk = chunk
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == self._chunk:
            return lambda *args, **more: self._faults.around(lambda: value(*args, **more))
        return value


class FaultyVad(ScriptedVad):
    placement = "loop"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = Faults(faults)

    def open(self) -> Any:
        return _Wrapped(super().open(), "probability", self.faults)


class FaultyAsr(ScriptedAsr):
    def __init__(self, config: ScriptedConfig, faults: Iterable[Fault]) -> None:
        super().__init__(config)
        self.faults = Faults(faults)

    def open(self) -> Any:
        return _Wrapped(super().open(), "decode", self.faults)


class FaultyLlm(ScriptedLlm):
    def __init__(self, config: ScriptedConfig, slots: int, faults: Iterable[Fault]) -> None:
        super().__init__(config, slots)
        self.faults = Faults(faults)

    def generation(self, prompt: Prompt) -> Any:
        return _Wrapped(super().generation(prompt), "step", self.faults)


class FaultyTts(ScriptedTts):
    def __init__(self, config: ScriptedConfig, faults: Iterable[Fault]) -> None:
        super().__init__(config)
        self.faults = Faults(faults)

    def synthesize(self, text: str, ctx: Context, *, first: bool) -> Any:
        return _Wrapped(super().synthesize(text, ctx, first=first), "step", self.faults)


class FaultyTurnModel(ScriptedTurnModel):
    """Keeps how much it was shown at each question. Seconds."""

    def __init__(self, config: ScriptedConfig, faults: Iterable[Fault] = ()) -> None:
        super().__init__(config)
        self.faults = Faults(faults)
        self.shown_s: list[float] = []

    def completeness(self, audio: Samples, ctx: Context) -> Any:
        self.shown_s.append(len(audio) / RATE_HZ)
        return self.faults.around(lambda: super(FaultyTurnModel, self).completeness(audio, ctx))


class ListeningLlm(ScriptedLlm):
    """Keeps every prompt that it was given."""

    def __init__(self, config: ScriptedConfig, slots: int) -> None:
        super().__init__(config, slots)
        self.prompts: list[tuple[tuple[str, str], ...]] = []

    def generation(self, prompt: Prompt) -> Any:
        self.prompts.append(tuple((message.role, message.content) for message in prompt.messages))
        return super().generation(prompt)

    @property
    def asked(self) -> tuple[tuple[str, str], ...]:
        """The newest prompt that was more than reading ahead."""
        return next(prompt for prompt in reversed(self.prompts) if prompt[-1] != ("user", ""))


class DictatedAsr:
    """Hears in the n-th final decode of an utterance the n-th of its texts, then the last of them for good.
    Partials lack the closing mark of what will be more. `utterances` holds the texts of each; after the last one
    the utterances begin again."""

    placement = "loop"
    name = "dictated"

    def __init__(self, *utterances: tuple[str, ...], asr_ms: float = 20.0) -> None:
        self.utterances = utterances
        self.asr_s = asr_ms / 1000

    def open(self) -> _DictatedStream:
        return _DictatedStream(self)


class _DictatedStream:
    def __init__(self, asr: DictatedAsr) -> None:
        self._asr = asr
        self._turns: list[int] = []
        self._finals = 0
        self.window_start = 0

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        return whole_window(window)

    async def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        if window.utterance not in self._turns:
            self._turns.append(window.utterance)
            self._finals = 0
        heard = len(self._turns) - 1
        texts = self._asr.utterances[heard % len(self._asr.utterances)]
        text = texts[min(self._finals, len(texts) - 1)]
        self._finals += final
        await asyncio.sleep(self._asr.asr_s)
        if final:
            return Transcript(text, "", final)
        more = self._finals < len(texts) - 1
        return Transcript("", text.rstrip(".?!") if more else text, final)

    def close(self) -> None:
        """Nothing is held."""


# --- the house -------------------------------------------------------------------------------------------------


class Recorder:
    """An Observer that keeps what it is told."""

    def __init__(self) -> None:
        self.verdicts: list[str] = []
        self.client_errors: list[str] = []
        self.engines_failed: list[str] = []
        self.refusals: list[str] = []
        self.leases = 0
        self.stale_s = 0.0
        self.non_finite = 0
        self.input_dropped_s: dict[str, float] = {}
        self.messages_dropped = 0
        self.corrections = 0

    def turn_ended(self, verdict: str, felt_s: float | None, system_s: float | None) -> None:
        self.verdicts.append(verdict)

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)

    def lease_taken(self, kind: str) -> None:
        self.leases += 1

    def lease_returned(self, kind: str) -> None:
        self.leases -= 1

    def client_error(self, code: str) -> None:
        self.client_errors.append(code)

    def engine_failed(self, stage: str) -> None:
        self.engines_failed.append(stage)

    def stale_audio_dropped(self, seconds: float) -> None:
        self.stale_s += seconds

    def non_finite_samples(self, n_samples: int) -> None:
        self.non_finite += n_samples

    def transcript_corrected(self) -> None:
        self.corrections += 1

    def input_dropped(self, why: str, seconds: float) -> None:
        self.input_dropped_s[why] = self.input_dropped_s.get(why, 0.0) + seconds

    def message_dropped(self) -> None:
        self.messages_dropped += 1


class NumberedLlm(ScriptedLlm):
    """Each turn has a reply of its own, as with a model, so that no audio of an earlier one is there already."""

    def generation(self, prompt: Prompt) -> ScriptedGeneration:
        first, space, rest = self._config.reply.partition(" ")
        config = msgspec.structs.replace(self._config, reply=f"{first}{len(prompt.messages)}{space}{rest}")
        return ScriptedGeneration(config, self._occupier, prompt.max_tokens)


def engines(
    config: ScriptedConfig | None = None,
    *,
    slots: int = 2,
    vad: Any = None,
    asr: Any = None,
    llm: Any = None,
    tts: Any = None,
    asr_second: Any = None,
    turn_model: Any = None,
) -> Engines:
    """Scripted engines, some of them replaced."""
    config = config or ScriptedConfig()
    return Engines(
        vad or ScriptedVad(),
        asr or ScriptedAsr(config),
        llm or ScriptedLlm(config, slots),
        tts or ScriptedTts(config),
        asr_second,
        turn_model,
    )


def limits(**values: Any) -> Config:
    """A configuration with other limits."""
    return Config(limits=LimitsConfig(**values))


@dataclass
class House:
    """What all sessions of a process share, in virtual time."""

    services: Services
    observer: Recorder
    records: dict[str, list[TurnRecord]] = field(default_factory=dict)

    @property
    def leased(self) -> int:
        return self.services.engines.llm.leased  # type: ignore[attr-defined,no-any-return]


@asynccontextmanager
async def open_house(
    these: Engines | None = None,
    config: Config | None = None,
    lanes: dict[str, int] | None = None,
    *,
    tape: Tape | None = None,
    device: Device | None = None,
    known: dict[str, Any] | None = None,
    chunks: list[Work] | None = None,
    health: HealthSettings | None = None,
) -> Any:
    """`device`: one of the test's own, instead of one with these `lanes` and this `tape`. `known`: what a server
    has measured and rendered at start: `clause_s` and `first_audio_s`, what a reply's first clause and its first
    audio take, and fields of Services. `chunks` gets every work that has run, in the order in which they ended.
    Leaving checks that every lease is back and that no chunk waits or runs."""
    observer = Recorder()
    make_scheduler = Scheduler if tape is None else tape.scheduler
    known = dict(known or {})
    forecaster = Forecaster(PLACEMENT)
    if "clause_s" in known:
        first_audio = Measured(WorkKind.SPEAK, Load("scripted", 12, variant="first"), known.pop("first_audio_s"))
        forecaster.seed([first_audio], [Way(read_s=known.pop("clause_s"), has_token=True)])

    def learn(work: Work, service_s: float, whole: bool) -> None:
        forecaster.on_chunk(work, service_s, whole=whole)
        if chunks is not None:
            chunks.append(work)

    own = Device(PLACEMENT, lanes or LANES, learn=learn, make_scheduler=make_scheduler, health=health)
    async with device or own as device:
        services = Services(these or engines(), device, config or Config(), observer, forecaster=forecaster)
        house = House(services, observer)

        def keep(session: str, record: TurnRecord) -> None:
            house.records.setdefault(session, []).append(record)

        make_turns = Turns if tape is None else tape.turns
        more = {"on_record": keep, "make_turns": make_turns, **(known or {})}
        house.services = replace(house.services, **more)
        yield house
    assert house.leased == 0, "a reply slot was not given back"
    left = device.snapshot().lanes
    assert all(lane.queued == lane.running == 0 for lane in left.values())


# --- the caller ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heard:
    """A message, and when it came. Seconds of virtual time since the call began."""

    at: float
    message: wire.ServerMessage | wire.AudioFrame


class Caller:
    """A client that speaks in real (virtual) time and keeps all that it hears."""

    def __init__(
        self, house: House, ident: str, query: dict[str, str] | None, capacity: int, rate: int = RATE_HZ
    ) -> None:
        self.house = house
        self.ident = ident
        self.rate = rate
        self.log: list[Heard] = []
        self.closed: ConnectionClosed | None = None
        self.reading = True
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self.server_side, self._connection = MemoryConnection.pair(capacity=capacity, query=query)
        self._position = 0
        self._noise = np.random.default_rng(1)
        self._ended = asyncio.Event()
        self._heard_all = asyncio.Event()

    # what it does

    @property
    def now(self) -> float:
        return self._clock() - self._began

    async def start(self, **more: Any) -> None:
        audio = wire.AudioFormat(rate=self.rate, channels=more.pop("channels", 1))
        await self.send(wire.SessionStart(audio=audio, protocol="voicepipe.v1", **more))

    async def send(self, message: wire.ClientMessage | wire.AudioFrame) -> None:
        await self.send_raw(encode_client(message))

    async def send_raw(self, data: str | bytes) -> None:
        await self._connection.send(data)

    async def speak(self, seconds: float) -> None:
        await self._sound(seconds, LOUD)

    async def pause(self, seconds: float) -> None:
        """Silence, sent like sound."""
        await self._sound(seconds, 0.0)

    async def wait(self, seconds: float) -> None:
        """Nothing is sent."""
        await asyncio.sleep(seconds)

    async def pause_until(self, kind: type[Any], *, within_s: float = 30.0) -> Any:
        """Send silence until a message of this kind comes that had not come when this was called."""
        before = len(self.of(kind))
        until = self.now + within_s
        while len(self.of(kind)) == before:
            assert self.now < until, f"no {kind.__name__} within {within_s} s"
            await self.pause(PACKET_S)
        return self.of(kind)[-1]

    async def pause_until_verdict(self, number: int, *, within_s: float = 30.0) -> None:
        """Send silence until so many turns have ended."""
        until = self.now + within_s
        while len(self.verdicts) < number:
            assert self.now < until, f"no verdict {number} within {within_s} s"
            await self.pause(PACKET_S)

    async def hang_up(self, code: int = 1006) -> None:
        await self._connection.close(code)

    async def end(self) -> ConnectionClosed:
        """In good order."""
        await self.send(wire.SessionEnd())
        return await self.gone()

    async def gone(self, *, within_s: float = 60.0) -> ConnectionClosed:
        """Wait until the session has ended and its connection is closed."""
        async with asyncio.timeout(within_s):
            await self._ended.wait()
            await self._heard_all.wait()
        assert self.closed is not None
        return self.closed

    # what it heard

    def of(self, kind: type[M]) -> list[M]:
        return [heard.message for heard in self.log if isinstance(heard.message, kind)]

    def at(self, kind: type[Any], index: int = 0) -> float:
        """When the message came."""
        return [heard.at for heard in self.log if isinstance(heard.message, kind)][index]

    @property
    def verdicts(self) -> list[str]:
        return [ended.verdict for ended in self.of(wire.TurnEnded)]

    @property
    def errors(self) -> list[str]:
        return [error.code for error in self.of(wire.Error)]

    @property
    def records(self) -> list[TurnRecord]:
        return self.house.records.get(self.ident, [])

    def audio(self, epoch: int) -> bytes:
        return b"".join(frame.pcm for frame in self.of(wire.AudioFrame) if frame.epoch == epoch)

    def text(self, epoch: int) -> str:
        return "".join(piece.text for piece in self.of(wire.ReplyText) if piece.epoch == epoch)

    def kinds(self) -> list[str]:
        """Names of the messages in order, runs of audio as one."""
        names: list[str] = []
        for heard in self.log:
            name = type(heard.message).__name__
            if name != "AudioFrame" or names[-1:] != [name]:
                names.append(name)
        return names

    # inner

    async def _sound(self, seconds: float, level: float) -> None:
        size = round(PACKET_S * self.rate)
        for _ in range(round(seconds / PACKET_S)):
            noise = self._noise.uniform(-level, level, size) * 32767
            frame = wire.AudioFrame(0, self._position, noise.astype("<i2").tobytes())
            self._position += size
            await self.send(frame)
            await asyncio.sleep(PACKET_S)

    async def listen(self) -> None:
        try:
            while True:
                if not self.reading:
                    await asyncio.sleep(PACKET_S)
                    continue
                data = await self._connection.recv()
                self.log.append(Heard(self.now, decode_server(data)))
        except ConnectionClosed as closed:
            self.closed = closed
        finally:
            self._heard_all.set()

    async def be_served(self) -> None:
        try:
            await serve_session(self.server_side, self.house.services, self.ident)
        finally:
            self._ended.set()


Script = Callable[[Caller], Awaitable[None]]


async def visit(
    house: House,
    script: Script,
    *,
    ident: str = "s1",
    query: dict[str, str] | None = None,
    capacity: int = 100_000,
    rate: int = RATE_HZ,
) -> Caller:
    """One call, from before its first message until the connection is closed."""
    caller = Caller(house, ident, query, capacity, rate)
    async with asyncio.TaskGroup() as group:
        group.create_task(caller.be_served())
        listening = group.create_task(caller.listen())
        with suppress(ConnectionClosed):  # the server may let go of the caller in mid-sentence
            await script(caller)
        caller.reading = True
        if caller.closed is None:
            await caller.hang_up()
        await caller.gone()
        await listening
    check_call(caller)
    return caller


def call(
    script: Script,
    these: Engines | None = None,
    config: Config | None = None,
    *,
    query: dict[str, str] | None = None,
    capacity: int = 100_000,
    rate: int = RATE_HZ,
    tape: Tape | None = None,
    known: dict[str, Any] | None = None,
) -> Caller:
    """Play the script against a fresh house in virtual time."""

    async def main() -> Caller:
        async with open_house(these, config, tape=tape, known=known) as house:
            caller = await visit(house, script, query=query, capacity=capacity, rate=rate)
        check_nothing_left()
        return caller

    return virtual.run(main())


# --- what always holds -----------------------------------------------------------------------------------------


def check_nothing_left() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left: {left}"


def check_call(caller: Caller) -> None:
    """What was reached and what was told, of one session."""
    check_verdicts(caller.records, caller.log, caller.closed)
    check_replies(caller.log)


def check_verdicts(
    records: list[TurnRecord], log: list[Heard], closed: ConnectionClosed | None, first: int = 1
) -> None:
    """One per turn, from the `first` on, and the client is told the same ones, in order."""
    numbers = [record.turn for record in records]
    assert numbers == list(range(first, first + len(numbers))), f"verdicts {numbers}"
    told = [heard.message.turn for heard in log if isinstance(heard.message, wire.TurnEnded)]
    assert told == numbers[: len(told)], "the client was told other verdicts than were reached"
    if closed is not None and closed.code in (1000, 1012):
        assert len(numbers) - len(told) <= 1, "only the turn that the end of the call cut may be untold"
    for record in records:
        if record.felt_estimate_s is not None:
            total_s = sum(share.wait_s + share.service_s for share in record.stages.values())
            assert abs(total_s - record.felt_estimate_s) < 1e-6


def check_replies(log: list[Heard]) -> None:
    """A reply's content lies between its commit and its end, without a gap."""
    open_epoch: int | None = None
    newest = 0
    expected = 0
    for heard in log:
        match heard.message:
            case wire.TurnCommitted(_, epoch):
                assert epoch > newest
                open_epoch = newest = epoch
                expected = 0
            case wire.TurnReopened(_, epoch):
                assert epoch > newest
                open_epoch, newest = None, epoch
            case wire.ReplyInterrupted(_, epoch):
                assert epoch == open_epoch
                open_epoch = None
            case wire.ReplyText(_, epoch) | wire.ReplyDone(_, epoch):
                assert epoch == open_epoch, "content of a reply that is not open"
            case wire.AudioFrame(epoch, offset, pcm):
                assert epoch == open_epoch, "sound of a reply that is not open"
                assert offset == expected, "a gap in the reply"
                expected += len(pcm) // 2
