"""Sessions on a device with a forecaster, in virtual time: what is declared, learnt, predicted and kept free."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import pytest

from tests import virtual
from tests.driving import Caller, FaultyLlm, Hang, NumberedLlm, engines, open_house, visit
from voicepipe.config import ScriptedConfig
from voicepipe.core.cost import CostKey
from voicepipe.core.events import Stage, TurnRecord, Work, WorkClass, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.engines.base import Context, Engines, StepSize, Transcript, Window, whole_window
from voicepipe.engines.scripted import ScriptedAsr
from voicepipe.wire import messages as wire

SCRIPT = ScriptedConfig(
    transcripts=("What is the time in Rome right now?", "And who are you that you know it?"),
    reply="It is a quarter past three, in Rome.",
    tts_ms=18.0,
)
"""Too long for partials of 1.5 s to hold it all: replies are begun by final decodes. With 20 ms a piece of sound
would come in the very instant of the commit."""


def talked(
    turns: int, these: Engines | None = None, speech_s: float = 1.5
) -> tuple[list[Work], list[TurnRecord], Forecaster]:
    """(chunks, records, the forecaster) of a session of so many turns."""
    chunks: list[Work] = []

    async def script(caller: Caller) -> None:
        await caller.start()
        for _ in range(turns):
            await caller.speak(speech_s)
            await caller.pause_until(wire.TurnEnded)
        await caller.end()

    async def main() -> Any:
        async with open_house(these or engines(SCRIPT, llm=NumberedLlm(SCRIPT, 2)), chunks=chunks) as house:
            caller = await visit(house, script)
        return caller.records, house.services.forecaster

    records, forecaster = virtual.run(main())
    return chunks, records, forecaster


def test_every_chunk_states_its_load_and_is_priced_once_its_key_is_known() -> None:
    """Those of the ears too. What the answer to the first of its key submits comes before that has been learnt."""
    chunks, _, forecaster = talked(3)
    seen: Counter[CostKey] = Counter()
    for work in chunks:
        assert work.load is not None
        key = forecaster.key(work.kind, work.load)
        assert work.bound_s > 0 or seen[key] <= 1
        seen[key] += 1
    assert {key.kind for key in seen} == set(WorkKind) - {
        WorkKind.WARM,
        WorkKind.SECOND_PASS,
        WorkKind.JUDGE,
        WorkKind.GENERATE,
    }
    assert forecaster.snapshot().costs.keys.keys() == seen.keys()


def test_what_must_follow_shrinks_from_chunk_to_chunk_down_to_nothing() -> None:
    """Along the way of the last turn's reply, from its final decode to its first audio."""
    chunks, records, _ = talked(3)
    last = [work for work in chunks if work.turn == len(records)]
    final = max(work.id for work in last if work.kind is WorkKind.FINAL)
    speak = next(work for work in last if work.kind is WorkKind.SPEAK and work.id > final)
    way = [w for w in last if final <= w.id <= speak.id and w.kind is not WorkKind.PARTIAL]
    assert [work.kind for work in way[:2]] == [WorkKind.FINAL, WorkKind.THINK]
    assert len(way) > 4
    assert all(before.remaining_s >= after.remaining_s >= 0.0 for before, after in pairwise(way))
    assert way[0].remaining_s > way[1].remaining_s > 0.0 == speak.remaining_s
    beyond = [work for work in last if work.id > speak.id]
    assert beyond and all(work.remaining_s == 0.0 for work in beyond)


def test_a_turn_records_what_was_expected_at_its_boundaries() -> None:
    """From the second turn on to a few milliseconds: engines that state their times can be foreseen. Without an
    open pause in between: content waits for the commit, which no service is."""
    _, records, _ = talked(3)
    record = records[-1]
    assert record.deadline is not None and record.instants.audio is not None
    stages = [forecast.stage for forecast in record.forecasts]
    assert stages[0] in (Stage.ASR, Stage.LLM, Stage.TTS) and stages[-1] is Stage.SEND
    for forecast in record.forecasts:
        assert forecast.slack_s == pytest.approx(record.deadline - forecast.finish)
        if forecast.stage is not Stage.SEND:
            assert forecast.finish == pytest.approx(record.instants.audio, abs=0.012)


class RecheckingAsr(ScriptedAsr):
    """A final decode takes 100 ms, and 40 where the decode before it has heard all but so many samples."""

    def __init__(self, config: ScriptedConfig, near: int) -> None:
        super().__init__(config)
        self.near = near

    def open(self) -> Any:
        return RecheckingStream(super().open(), self.near)


class RecheckingStream:
    window_start = 0

    def __init__(self, inner: Any, near: int) -> None:
        self._inner = inner
        self._near = near
        self._heard = (0, 0)

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        utterance, end = self._heard
        near = utterance == window.utterance and window.start + len(window.samples) - end <= self._near
        return replace(whole_window(window), variant="recheck" if near and final else "")

    async def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        service_s = 0.1 if final and not self.next_size(window, final=final).variant else 0.04
        self._heard = window.utterance, window.start + len(window.samples)
        await asyncio.sleep(service_s)
        transcript: Transcript = await self._inner.decode(window, final=final, ctx=ctx)
        return transcript

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize(("near", "variant", "speech_s"), [(4_000, "recheck", 1.54), (-1, "", 1.6)])
def test_at_the_pause_a_decode_is_expected_to_take_what_its_kind_takes(
    near: int, variant: str, speech_s: float
) -> None:
    """Where it has not to wait for the partial before it, to a few milliseconds."""
    config = ScriptedConfig(asr_ms=0, transcripts=SCRIPT.transcripts, reply=SCRIPT.reply)
    recogniser = RecheckingAsr(config, near)
    chunks, records, _ = talked(4, engines(config, asr=recogniser, llm=NumberedLlm(config, 2)), speech_s)
    finals = [work for work in chunks if work.kind is WorkKind.FINAL]
    assert {work.load.variant for work in finals if work.load is not None} == {variant}
    for record in records[1:]:
        first = record.forecasts[0]
        assert first.stage is Stage.ASR
        assert first.finish == pytest.approx(record.instants.audio, abs=0.005)


def test_a_step_that_was_cut_off_teaches_no_short_service() -> None:
    """A hang during which the caller leaves: at least that long."""
    chunks: list[Work] = []

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.send(wire.InputText("Hello."))
        await caller.wait(1.0)
        await caller.hang_up()

    async def main() -> Forecaster:
        faults = [None, None, None, None, Hang(1.5)]
        these = engines(SCRIPT, llm=FaultyLlm(SCRIPT, 1, faults))
        async with open_house(these, chunks=chunks) as house:
            await visit(house, script)
        return house.services.forecaster  # type: ignore[no-any-return]

    forecaster = virtual.run(main())
    (hung,) = [work for work in chunks if work.kind is WorkKind.THINK and work.bound_s][-1:]
    assert hung.load is not None
    assert forecaster.price(hung, hung.load).bound_s >= hung.bound_s


class Background:
    """Work without a session that wants to run all the time, a chunk of 150 ms after the other."""

    def __init__(self, house: Any, service_s: float) -> None:
        self.ran: list[float] = []
        self._device = house.services.device
        self._service_s = service_s
        self._ids = count(1)
        self._loop = asyncio.get_running_loop()

    def submit(self) -> None:
        work = Work(next(self._ids), "bg", 0, 0, 0, WorkKind.THINK, WorkClass.BACKGROUND, bound_s=self._service_s)
        self._device.submit(work, self._chunk, blocking=False, answer=lambda outcome: self._again(outcome))

    async def _chunk(self) -> None:
        self.ran.append(self._loop.time())
        await asyncio.sleep(self._service_s)

    def _again(self, outcome: object) -> None:
        if self._loop.time() < self.until:
            self.submit()

    until = 0.0


@pytest.mark.parametrize(("service_s", "during_speech"), [(0.15, False), (0.02, True)])
def test_background_waits_for_a_turn_that_may_end_and_runs_when_none_can(
    service_s: float, during_speech: bool
) -> None:
    """The way to content takes some 100 ms of the 200: a chunk of 150 ms is held back while somebody speaks and
    until the reply is ready, a chunk of 20 fits in. Between turns, both run."""

    async def main() -> Any:
        marks: dict[str, float] = {}
        async with open_house(engines(SCRIPT)) as house:
            clock = asyncio.get_running_loop().time
            background = Background(house, service_s)

            async def script(caller: Caller) -> None:
                await caller.start()
                await caller.speak(1.5)  # teaches what a turn takes
                await caller.pause_until(wire.TurnEnded)
                background.until = clock() + 10.0
                background.submit()
                await caller.pause(2.0)
                marks["speech"] = clock()
                await caller.speak(1.5)
                marks["silence"] = clock()
                await caller.pause_until(wire.ReplyDone)
                await caller.pause_until_verdict(2)
                marks["over"] = clock()
                await caller.pause(2.0)
                background.until = 0.0
                await caller.pause(0.5)
                await caller.end()

            caller = await visit(house, script)
            assert house.services.device.snapshot().reserved == 0
        return background.ran, marks, caller

    ran, marks, caller = virtual.run(main())
    # The onset is known a few frames after the first sound.
    speaking = [at for at in ran if marks["speech"] + 0.2 < at < marks["silence"]]
    assert bool(speaking) is during_speech
    assert sum(at < marks["speech"] for at in ran) > 1.5 / (service_s + 0.01)
    assert [at for at in ran if at > marks["over"]]
    assert caller.verdicts == ["met", "met"]
