"""Texts through the service on a device in virtual time, with the scripted pool."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from tests import virtual
from voicepipe.background import TextService
from voicepipe.config import ScriptedConfig
from voicepipe.core.background import TextSettings
from voicepipe.core.events import Load, Timing, Work, WorkKind
from voicepipe.core.forecast import Forecaster, Measured
from voicepipe.device import Device
from voicepipe.engines.base import ChatMessage, Text, TextRequest, TextStep
from voicepipe.engines.scripted import ScriptedTexts
from voicepipe.errors import EngineError, EngineUnavailable, PromptTooLong, Refused

SCRIPT = ScriptedConfig(reply="one two three four", llm_prefill_ms=10, llm_token_ms=5)


class Books:
    """What was told."""

    def __init__(self) -> None:
        self.tokens: Counter[str] = Counter()
        self.outcomes: list[str] = []
        self.refusals: list[str] = []
        self.leases: Counter[str] = Counter()
        self.changes: list[tuple[int, int]] = []

    def text_tokens(self, kind: str, tokens: int) -> None:
        self.tokens[kind] += tokens

    def text_ended(self, outcome: str) -> None:
        self.outcomes.append(outcome)

    def texts_changed(self, running: int, waiting: int) -> None:
        self.changes.append((running, waiting))

    def lease_taken(self, kind: str) -> None:
        self.leases[kind] += 1

    def lease_returned(self, kind: str) -> None:
        self.leases[kind] -= 1

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)


class Bench:
    def __init__(self, service: TextService, device: Device, books: Books, chunks: list[Work]) -> None:
        self.service, self.device, self.books, self.chunks = service, device, books, chunks


class FailingTexts(ScriptedTexts):
    async def step(self, texts: Sequence[Text], units: int) -> tuple[TextStep, ...]:  # type: ignore[override]
        raise EngineError("out of memory")


@asynccontextmanager
async def bench(
    pool: ScriptedTexts | None = None, is_pressed: Callable[[], bool] = lambda: False, **more: int
) -> AsyncIterator[Bench]:
    books, chunks, forecaster = Books(), list[Work](), Forecaster()

    def learn(work: Work, service_s: float, whole: bool) -> None:
        forecaster.on_chunk(work, service_s, whole=whole)

    def observe(work: Work, timing: Timing, lane: str) -> None:
        chunks.append(work)

    lanes = dict.fromkeys(WorkKind, "main")
    pool = pool or ScriptedTexts(SCRIPT, 2)
    async with Device(lanes, {"main": 1}, learn=learn, observe=observe) as device:
        costs = [Measured(WorkKind.GENERATE, Load("m", n, 20, "decode-2"), 0.005 * n) for n in (1, 2, 4)]
        forecaster.seed(costs)  # as a warm-up would
        settings = TextSettings("m", slots=pool.slots, **more)  # type: ignore[arg-type]
        async with TextService(pool, device, forecaster, books, settings, is_pressed=is_pressed) as service:
            yield Bench(service, device, books, chunks)
    assert books.leases["text"] == pool.leased == 0


def ask(content: str = "say something", max_tokens: int = 6) -> TextRequest:
    return TextRequest((ChatMessage("user", content),), max_tokens)


async def said(service: TextService, request: TextRequest, stops: Sequence[str] = ()) -> str:
    with service.open(request, stops) as stream:
        return "".join([piece async for piece in stream.pieces()])


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await main()

    virtual.run(limited(), limit_s=60)


def test_a_text_comes_in_pieces_and_is_counted() -> None:
    async def main() -> None:
        async with bench() as one:
            with one.service.open(ask()) as stream:
                pieces = [piece async for piece in stream.pieces()]
            assert len(pieces) > 1 and "".join(pieces) == "one two three four one two"
            assert (stream.finish, stream.prompt_tokens, stream.completion_tokens) == ("length", 2, 6)
            assert one.books.tokens == {"prefill": 2, "decode": 6}
            assert one.books.outcomes == ["length"]
            assert one.books.changes[-1] == (0, 0)

    run(main)


def test_a_stop_sequence_ends_it() -> None:
    """And the slot is free again."""

    async def main() -> None:
        async with bench() as one:
            assert await said(one.service, ask(max_tokens=500), ["three", "four"]) == "one two "
            assert one.books.outcomes == ["stop"]
            assert one.service.snapshot().running == 0

    run(main)


def test_several_are_written_in_one_chunk() -> None:
    async def main() -> None:
        async with bench() as one, asyncio.TaskGroup() as group:
            tasks = [group.create_task(said(one.service, ask(max_tokens=n))) for n in (61, 61)]
            await asyncio.wait(tasks)
            assert {task.result().split()[-1] for task in tasks} == {"one"}
            variants = {chunk.load.variant for chunk in one.chunks if chunk.load is not None}
            assert variants >= {"split", "prefill", "decode-2"}

    run(main)


def test_chunks_grow_with_what_is_known_of_them() -> None:
    """Two tokens at first; up to 50 ms of them later, where nobody is expected."""

    async def main() -> None:
        async with bench() as one:
            await said(one.service, ask(max_tokens=60))
            sizes = [c.load.units for c in one.chunks if c.load is not None and c.load.variant == "decode-1"]
            assert sizes[0] == 2 and max(sizes) > 2
            assert all(c.bound_s <= 0.06 for c in one.chunks)

    run(main)


def test_a_reader_that_goes_away_frees_the_slot_at_the_next_chunk() -> None:
    async def main() -> None:
        async with bench() as one:
            with one.service.open(ask(max_tokens=1000)) as stream:
                await anext(stream.pieces())
            await asyncio.sleep(0.06)
            assert one.books.leases["text"] == 0
            assert one.books.outcomes == ["cancelled"]
            assert one.service.snapshot().running == 0

    run(main)


def test_too_many_are_refused_with_the_time_to_come_back() -> None:
    """Those that wait get their turn."""

    async def main() -> None:
        async with bench(max_waiting=1) as one, asyncio.TaskGroup() as group:
            tasks = [group.create_task(said(one.service, ask())) for _ in range(3)]
            await asyncio.sleep(0)
            with pytest.raises(Refused) as caught, one.service.open(ask()):
                pass
            assert caught.value.reason == "capacity" and caught.value.retry_after_ms >= 1000
            await asyncio.wait(tasks)
            assert sorted(one.books.outcomes) == ["length", "length", "length", "refused"]

    run(main)


def test_an_engine_that_fails_costs_its_texts_and_no_slot() -> None:
    async def main() -> None:
        async with bench(FailingTexts(SCRIPT, 2)) as one:
            with pytest.raises(EngineError, match="memory"):
                await said(one.service, ask())
            assert one.books.outcomes == ["failed"]
            assert one.service.snapshot().running == 0

    run(main)


def test_a_prompt_that_is_too_long_is_told_so() -> None:
    async def main() -> None:
        async with bench() as one:
            with pytest.raises(PromptTooLong):
                await said(one.service, ask("word " * 3000))

    run(main)


def test_a_text_waits_while_a_session_is_about_to_need_the_device() -> None:
    """And goes on when it is not."""

    async def main() -> None:
        async with bench() as one:
            loop = asyncio.get_running_loop()
            await said(one.service, ask())  # so that costs are known
            one.device.reserve("a", loop.time() + 0.001)
            with one.service.open(ask()) as stream:
                await asyncio.sleep(0.5)
                assert stream.prompt_tokens == 0
                one.device.unreserve("a")
                async for _ in stream.pieces():
                    pass
            assert stream.finish == "length"

    run(main)


def test_a_drain_lets_texts_end_and_takes_no_more() -> None:
    async def main() -> None:
        async with bench() as one, asyncio.TaskGroup() as group:
            text = group.create_task(said(one.service, ask(max_tokens=100)))
            await asyncio.sleep(0)
            drained = group.create_task(one.service.drain(10.0))
            await asyncio.sleep(0)
            with pytest.raises(Refused, match="draining"), one.service.open(ask()):
                pass
            await drained
            assert text.done() and one.books.outcomes == ["refused", "length"]

    run(main)


def test_a_drain_ends_after_its_grace() -> None:
    """What is not done by then fails when the service goes."""

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            async with bench() as one:
                text = group.create_task(said(one.service, ask(max_tokens=100_000)))
                await asyncio.sleep(0)
                began = asyncio.get_running_loop().time()
                await one.service.drain(1.0)
                assert asyncio.get_running_loop().time() - began == pytest.approx(1.0)
            with pytest.raises(EngineUnavailable):
                await text

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert caught.group_contains(EngineUnavailable)


def test_under_pressure_no_new_text_is_taken() -> None:
    """The one that runs goes on."""
    pressed = False

    async def main() -> None:
        nonlocal pressed
        async with bench(is_pressed=lambda: pressed) as one, asyncio.TaskGroup() as group:
            text = group.create_task(said(one.service, ask()))
            await asyncio.sleep(0)
            pressed = True
            with pytest.raises(Refused, match="overloaded"), one.service.open(ask()):
                pass
            assert await text
            assert one.books.outcomes == ["refused", "length"]

    run(main)


class HangingTexts(ScriptedTexts):
    """A step swallows its cancellation, once, for twenty seconds."""

    hangs = True

    async def step(self, texts: Sequence[Text], units: int) -> tuple[TextStep, ...]:  # type: ignore[override]
        loop = asyncio.get_running_loop()
        until = loop.time() + (20.0 if self.hangs else 0.0)
        self.hangs = False
        while loop.time() < until:
            try:
                await asyncio.sleep(until - loop.time())
            except asyncio.CancelledError:
                continue
        return await super().step(texts, units)  # type: ignore[no-any-return,misc]


def test_texts_of_a_call_that_does_not_end_fail_and_keep_their_slots_until_it_does() -> None:
    """Their readers are told at the limit; who comes meanwhile waits, and is served when it has ended."""

    async def main() -> None:
        async with bench(HangingTexts(SCRIPT, 2)) as one:
            began = asyncio.get_running_loop().time()
            with pytest.raises(EngineError) as raised:
                await said(one.service, ask())
            assert raised.value.code == "engine_timeout"
            assert asyncio.get_running_loop().time() - began < 12.0
            assert one.books.leases["text"] == 1
            assert await said(one.service, ask()) == "one two three four one two"
            assert 20.0 <= asyncio.get_running_loop().time() - began < 25.0
            assert one.books.leases["text"] == 0

    run(main)


def test_a_service_that_ends_leaves_a_lost_call_what_it_uses() -> None:
    """It is given back when the call has ended."""

    async def main() -> None:
        pool = HangingTexts(SCRIPT, 2)
        async with Device(dict.fromkeys(WorkKind, "main"), {"main": 1}) as device:
            books = Books()
            async with TextService(pool, device, Forecaster(), books, TextSettings("m", 2)) as service:
                with pytest.raises(EngineError):
                    await said(service, ask())
            assert pool.leased == 1
            await asyncio.sleep(20.0)
            assert pool.leased == books.leases["text"] == 0

    run(main)
