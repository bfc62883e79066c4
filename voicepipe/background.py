"""Carries out what `core.background` decides: texts at the engine's pool, chunks at the device, pieces to readers.

Everything is called on the loop's thread. A text's slot goes back in one place, when core says so or the service
ends; a reader that goes away says so by leaving its stream, and the text ends at the next chunk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Literal, Protocol, Self

from voicepipe.chunk import Done, Dropped, Failed, Outcome
from voicepipe.core import background as core
from voicepipe.core.events import Work
from voicepipe.core.forecast import Forecaster
from voicepipe.core.stopping import Stops
from voicepipe.device import Device
from voicepipe.engines.base import MaybeAwaitable, Text, TextPool, TextRequest, TextStep
from voicepipe.errors import EngineUnavailable, PromptRefused, Refused, VoicepipeError

log = logging.getLogger(__name__)

Finish = Literal["stop", "length"]
TextOutcome = Literal["stop", "length", "cancelled", "failed", "refused"]
DRAIN_RETRY_MS = 5_000
PRESSED_RETRY_MS = 5_000
"""A level of overload is not left sooner."""


class TextObserver(Protocol):
    """What is told of texts; `kind` and `outcome` are from fixed sets."""

    def text_tokens(self, kind: Literal["prefill", "decode"], tokens: int) -> None: ...
    def text_ended(self, outcome: TextOutcome) -> None: ...
    def texts_changed(self, running: int, waiting: int) -> None: ...
    def lease_taken(self, kind: str) -> None: ...
    def lease_returned(self, kind: str) -> None: ...
    def refused(self, reason: str) -> None: ...


class TextStream:
    """One text as it is made. What its reader has not taken yet is one string, no longer than the text."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.finish: Finish | None = None
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._stops = Stops(stops)
        self._ready = ""
        self._error: VoicepipeError | None = None
        self._changed = asyncio.Event()

    @property
    def outcome(self) -> TextOutcome:
        """As it would be called if nothing more came."""
        return self.finish or ("cancelled" if self._error is None else "failed")

    async def pieces(self) -> AsyncIterator[str]:
        """Text as it comes; `finish` is set when there is no more. Raises what the text died of. A cancellation
        loses nothing."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            piece, self._ready = self._ready, ""
            if piece:
                yield piece
            if self._error is not None:
                raise self._error
            if self.finish is not None:
                return

    def push(self, step: TextStep) -> None:
        """What a chunk has done; nothing comes behind `finish`."""
        self.completion_tokens += step.tokens
        self._ready += self._stops.push(step.text)
        if self._stops.found:
            self.finish = "stop"
        elif step.finish is not None:
            self._ready += self._stops.flush()
            self.finish = step.finish
        if self._ready or self.finish is not None:
            self._changed.set()

    def fail(self, error: VoicepipeError) -> None:
        if self.finish is None:
            self._error = error
            self._changed.set()


class TextService:
    """`async with` it while the device runs; leaving it ends every text that is left."""

    def __init__(
        self,
        pool: TextPool,
        device: Device,
        forecaster: Forecaster,
        observer: TextObserver,
        settings: core.TextSettings,
        *,
        is_pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_pressed`: the server has more to do than it can, and takes no new texts."""
        self._is_pressed = is_pressed
        self._pool = pool
        self._device = device
        self._forecaster = forecaster
        self._observer = observer
        self._settings = settings
        self._core = core.Background(settings, count(1))
        self._requests: dict[str, TextRequest] = {}
        """Of those that wait for a slot."""
        self._texts: dict[str, Text] = {}
        """Those that have one."""
        self._streams: dict[str, TextStream] = {}
        """Those that somebody reads."""
        self._idents = count(1)
        self._at_work: tuple[str, ...] = ()
        """The texts that the chunk is for that runs, at the size that the scheduler chose."""
        self._lost: frozenset[str] = frozenset()
        """The texts in a call that does not end."""
        self._draining = False
        self._grace: asyncio.Timeout | None = None
        self._ended = False
        """The device is told no more."""
        self._empty = asyncio.Event()
        self._empty.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draining = self._ended = True
        self._cut_off()
        self._device.leave(core.SESSION, self._release)

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def context_tokens(self) -> int:
        return self._pool.context_tokens

    def snapshot(self) -> core.TextSnapshot:
        return self._core.snapshot()

    async def drain(self, grace_s: float) -> None:
        """Take no more texts, give those that run so long, and then let them fail. A second call ends the first
        one's grace, if its own ends sooner."""
        self._draining = True
        deadline = self._now() + grace_s
        if self._grace is not None:
            at = self._grace.when()
            if at is not None and deadline < at:
                self._grace.reschedule(deadline)
            await self._empty.wait()
            return
        try:
            async with asyncio.timeout_at(deadline) as self._grace:
                await self._empty.wait()
        except TimeoutError:
            log.info("drain: %d texts are cut off", len(self._streams))
            self._cut_off()
        finally:
            self._grace = None

    def _cut_off(self) -> None:
        for stream in self._streams.values():
            stream.fail(EngineUnavailable("the server goes away"))

    @contextmanager
    def open(self, request: TextRequest, stops: Sequence[str] = ()) -> Iterator[TextStream]:
        """The text is wanted as long as the block runs. Raises Refused where too many wait, under pressure, and
        while draining."""
        ident, stream = f"t{next(self._idents)}", TextStream(stops)
        self._admit(ident, request, stream)
        try:
            yield stream
        finally:
            del self._streams[ident]
            self._requests.pop(ident, None)
            self._observer.text_ended(stream.outcome)
            if not self._ended:
                self._pump(self._core.on_cancel(ident, self._now()))
            if not self._streams:
                self._empty.set()

    def on_turned_away(self, reason: str) -> None:
        """A request did not get as far as to ask for a text."""
        self._observer.refused(reason)

    # inner

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _admit(self, ident: str, request: TextRequest, stream: TextStream) -> None:
        refused = Refused("draining", DRAIN_RETRY_MS) if self._draining else None
        if refused is None and self._is_pressed():
            refused = Refused("overloaded", PRESSED_RETRY_MS)
        if refused is None:
            self._requests[ident], self._streams[ident] = request, stream
            commands = self._core.on_request(ident, request.characters, self._now())
            match commands:
                case [core.RefuseText(_, retry_after_s)]:
                    del self._requests[ident], self._streams[ident]
                    refused = Refused("capacity", 1000 * retry_after_s)
                case _:
                    self._empty.clear()
                    self._pump(commands)
        if refused is not None:
            self._observer.text_ended("refused")
            raise refused

    def _pump(self, commands: list[core.TextCommand]) -> None:
        for command in commands:
            match command:
                case core.OpenText(ident):
                    self._texts[ident] = self._pool.open(self._requests.pop(ident))
                    self._observer.lease_taken("text")
                case core.CloseText(ident):
                    self._texts.pop(ident).close()
                    self._observer.lease_returned("text")
                case core.TakeBack(work):
                    self._device.withdraw(work)
                case core.Generate():
                    self._submit(command)
                case core.RefuseText():
                    raise AssertionError("only a request is refused")
        snapshot = self._core.snapshot()
        self._observer.texts_changed(snapshot.running, snapshot.waiting)

    def _submit(self, chunk: core.Generate) -> None:
        work = self._forecaster.offer(chunk.work, chunk.sizes, chunk.start, self._settings.longest_s)
        texts: list[Text] = []
        units = 0

        def on_run(work: Work) -> None:
            nonlocal units
            assert work.load is not None
            units, self._at_work = round(work.load.units), chunk.idents_at(work.load)
            texts.extend(self._texts[ident] for ident in self._at_work)
            self._core.on_begun(work.id, work.load, self._now())

        def call() -> MaybeAwaitable[tuple[TextStep, ...]]:
            return self._pool.step(texts, units)

        self._device.submit(
            work,
            call,
            blocking=self._pool.placement == "thread",
            answer=lambda outcome: self._on_outcome(chunk, outcome),
            is_whole=self._is_whole,
            on_run=on_run,
        )

    def _is_whole(self, steps: tuple[TextStep, ...]) -> bool:
        """Texts that end take less than a chunk's load says."""
        return not any(step.tokens and step.finish for step in steps)

    def _on_outcome(self, chunk: core.Generate, outcome: Outcome) -> None:
        rests: dict[str, core.Rest | None] = {}
        match outcome:
            case Dropped():
                return  # taken back
            case Failed(_, error, still):
                if not isinstance(error, PromptRefused):  # which is the client's fault
                    log.error("%s failed: %s", chunk.work.kind, error.code)
                for ident in self._at_work:
                    rests[ident] = None
                    if ident in self._streams:
                        self._streams[ident].fail(error)
                if still is not None:  # their slots are given back when the call has ended
                    self._lost = frozenset(self._at_work)
                    still.add_done_callback(lambda _: self._found(chunk, rests))
                    return
            case Done(_, _, result):
                for ident, step in zip(self._at_work, result, strict=True):
                    rests[ident] = self._took(ident, step)
        self._pump(self._core.on_ran(chunk.work.id, rests, self._now()))

    def _found(self, chunk: core.Generate, rests: dict[str, core.Rest | None]) -> None:
        """The lost call has ended."""
        self._lost = frozenset()
        if self._ended:
            self._release()
        else:
            self._pump(self._core.on_ran(chunk.work.id, rests, self._now()))

    def _took(self, ident: str, step: TextStep) -> core.Rest | None:
        """What is left to do; None where nobody reads it, or it is done."""
        text, stream = self._texts[ident], self._streams.get(ident)
        self._observer.text_tokens("prefill", step.prefilled)
        self._observer.text_tokens("decode", step.tokens)
        if stream is None:
            return None
        stream.prompt_tokens = text.prompt_tokens
        stream.push(step)
        if stream.finish is not None:
            return None
        size = text.next_size()
        return core.Rest(size.variant, size.units, size.context)

    def _release(self) -> None:
        """No chunk runs any more, but one whose call is lost."""
        for ident in [ident for ident in self._texts if ident not in self._lost]:
            self._texts.pop(ident).close()
            self._observer.lease_returned("text")
