"""One connection, one session: messages go into core, commands come out and are carried out.

Everything that decides runs synchronously on the loop's thread, in `_pump`: a message, a chunk's outcome and
the timer all end there. Beside the reader there is one writer, fed from a bounded queue; a client too slow to
take what is sent is let go. Whatever ends the session, the device is told and the reply slot comes back.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable

from voicepipe.announce import to_wire
from voicepipe.chunk import Done, Dropped, Failed, OnLost, Outcome
from voicepipe.claim import Claim
from voicepipe.clause import Spoken
from voicepipe.connection import Connection, ConnectionClosed
from voicepipe.core import events as core
from voicepipe.core.overload import Level
from voicepipe.core.streak import Streak
from voicepipe.core.turn_state import Phase
from voicepipe.ears import Ears
from voicepipe.engines.base import LlmStep, Transcript
from voicepipe.errors import (
    BadField,
    BadStart,
    BadToolCall,
    ClientError,
    EngineExhausted,
    OutOfOrder,
    Overfed,
    SessionLimit,
    Unsupported,
)
from voicepipe.ingest import INTERNAL_HZ, Ingest
from voicepipe.jobs import Decoded, Jobs, is_whole
from voicepipe.outbox import Outbox
from voicepipe.resumption import Seat
from voicepipe.services import Services
from voicepipe.tally import Tally
from voicepipe.toolbox import checked_calls
from voicepipe.turn_setup import ask_of, turn_settings
from voicepipe.wire import messages as wire
from voicepipe.wire.dialect import Dialect

log = logging.getLogger(__name__)

_DECODES = (core.WorkKind.PARTIAL, core.WorkKind.FINAL)
_RESTART = 1012
_MOVED = 4410
_GOES_ON = frozenset({_RESTART, _MOVED})
"""Of the closes that a session decides itself, those after which its client goes on elsewhere."""
_FOR_GOOD = frozenset({1000, 1002, 1003, 1007, 1009})
"""Codes of a connection that was closed on purpose, or whose peer breaks the protocol. With any other one it was
lost."""
RELEASE_S = 2.0
"""How long the end of a session waits for its running chunk: the longest decode of a full window."""


class _End(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Session:
    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        services: Services,
        ident: str,
        start: wire.SessionStart,
        budget_ms: float,
    ) -> None:
        """Raises BadStart, Unsupported and EngineBusy."""
        self._connection = connection
        self._dialect = dialect
        self._services = services
        self._ident = ident
        self._clock = asyncio.get_running_loop().time
        self._budget_ms = budget_ms
        serial = itertools.count(1)
        self._ears = Ears(
            ident,
            Ingest(start.audio.rate, start.audio.channels),
            services.engines.vad,
            services.device,
            services.forecaster,
            serial,
            heard=lambda *heard: self._pump(self._turns.on_endpoint(*heard)),
            deaf=lambda code: self._pump(self._turns.on_deaf(code, self._clock())),
            guarded=self._guarded,
            clock=self._clock,
            timeout_s=services.config.limits.engine_timeout_s,
            max_backlog_s=dialect.max_backlog_s,
            behind=self._on_behind,
        )
        output_rate = start.output_rate or services.engines.tts.sample_rate_hz
        try:
            self._settings = turn_settings(services, start, budget_ms, output_rate)
        except (BadField, Unsupported) as exc:
            raise BadStart(exc.message, field=exc.field) from None
        self._jobs = Jobs(ident, services.engines, self._ears.ring, start.output_rate, self._on_lease)
        self._tally = Tally()
        self._turns = services.make_turns(ident, self._settings, serial)
        self._turns.on_outlook(services.forecaster.outlook())
        self._outbox = Outbox(
            connection,
            dialect.tell,
            timeout_s=services.config.limits.send_timeout_s,
            epoch=lambda: self._turns.epoch,
            sent=lambda epoch: self._pump(self._turns.on_sent(epoch, self._clock())),
            acknowledged=lambda epoch: self._pump(self._turns.on_acknowledged(epoch, self._clock())),
            stale=lambda samples: services.observer.stale_audio_dropped(samples / self._jobs.output_rate),
        )
        self._streak = Streak(services.config.limits.failed_turns)
        self._sheds = False
        self._spare_s: float | None = None
        self._claim = Claim(ident, services.device, self._clock)
        self._turn_over = asyncio.Event()
        self._released = asyncio.Event()
        self._seat: Seat | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, seat: Seat | None = None) -> tuple[int, str]:
        """(close code, reason). With a seat it may be resumed where it ends without having been ended."""
        self._seat = seat
        comes_back = False
        try:
            if seat is not None and seat.kept is not None:
                self._pump(self._turns.on_restored(seat.kept))
            self._outbox.put(self._ready())
            self._pump(self._turns.on_opened(self._clock()))
            code, reason = await self._converse()
            comes_back = code in _GOES_ON
            return code, reason
        except ConnectionClosed as closed:
            comes_back = closed.code not in _FOR_GOOD
            raise
        except SessionLimit:
            comes_back = self._outbox.stalled
            raise
        finally:
            self._close(comes_back=comes_back and seat is not None)
            await self._let_go()

    async def _converse(self) -> tuple[int, str]:
        """Until the client ends it, the connection closes, a limit is hit, the server drains or we break."""
        cause: ClientError | EngineExhausted | ConnectionClosed | _End
        try:
            async with asyncio.TaskGroup() as group:
                parts = (self._read, self._outbox.write, self._watch, self._drain, self._hurry, self._move)
                for part in parts:
                    group.create_task(part())
        except* (ClientError, EngineExhausted, ConnectionClosed, _End) as several:
            first = several.exceptions[0]
            assert isinstance(first, ClientError | EngineExhausted | ConnectionClosed | _End)
            cause = first
        if isinstance(cause, _End):
            return cause.code, cause.reason
        raise cause

    async def _read(self) -> None:
        limits = self._services.config.limits
        until = self._clock() + limits.session_s
        while True:
            idle_at = self._clock() + limits.idle_s
            try:
                async with asyncio.timeout_at(min(idle_at, until)):
                    data = await self._connection.recv()
            except TimeoutError:
                kind = "idle" if idle_at < until else "too long"
                raise SessionLimit(f"the session was {kind}") from None
            try:
                for step in self._dialect.receive(data):
                    if isinstance(step, str | bytes):
                        self._outbox.answer(step)
                    elif isinstance(step, wire.SessionEnd):
                        await self._outbox.finish()
                        raise _End(1000, "")
                    else:
                        self._on_message(step)
                self._grant()
            except ClientError as exc:
                self._complain(exc)

    def _grant(self) -> None:
        """What the dialect has held back, and the session can do by now."""
        for message in self._dialect.wishes():
            try:
                self._on_message(message)
            except ClientError as exc:
                self._complain(exc)

    def _on_behind(self) -> None:
        most_s = self._dialect.max_backlog_s
        self._complain(
            Overfed(f"more than {most_s:g} s of sound wait to be listened to: the oldest is passed over")
        )

    def _complain(self, error: ClientError) -> None:
        """Raises it where it ends the session."""
        if self._dialect.is_fatal(error):
            raise error
        self._services.observer.client_error(error.code)
        self._outbox.answer(*self._dialect.fault(error))

    async def _drain(self) -> None:
        services = self._services
        await services.draining.wait()
        deadline = services.drain_deadline()
        left_s = 0.0 if deadline is None else max(0.0, deadline - self._clock())
        self._outbox.put(wire.Draining(deadline_ms=round(1000 * left_s)))
        await self._turn_ends()
        self._pump(self._turns.on_closed(self._clock()))  # what is still open ends here, and is told
        await self._outbox.emptied()
        raise _End(_RESTART, "the server goes away")

    async def _turn_ends(self) -> None:
        """Or the time of the drain does."""
        while self._turns.phase is not Phase.ENDED and not self._services.ending.is_set():
            self._turn_over.clear()
            await self._turn_over.wait()

    async def _hurry(self) -> None:
        await self._services.ending.wait()
        self._turn_over.set()

    async def _move(self) -> None:
        """Its client has come back by another connection, and goes on there."""
        if self._seat is not None:
            await self._seat.moved.wait()
            raise _End(_MOVED, "resumed by another connection")

    async def _watch(self) -> None:
        """A fault of ours in a callback ends the session like one in a task."""
        try:
            await self._broken
        except EngineExhausted:
            await self._outbox.finish()
            raise

    def _close(self, *, comes_back: bool) -> None:
        """Only what was said is left where the client may come back: all else is given back at once."""
        if self._timer is not None:
            self._timer.cancel()
        turns = self._turns
        for command in (turns.on_lost if comes_back else turns.on_closed)(self._clock()):
            if isinstance(command, core.TurnEnded):
                self._note(command.record)
        if self._seat is not None:
            self._seat.leave(turns.kept() if comes_back else None)
        self._services.observer.non_finite_samples(self._ears.ingest.stats().non_finite)
        self._services.device.leave(self._ident, self._release)
        self._broken.cancel()

    async def _let_go(self) -> None:
        """Until the slot is free: nobody is let in before. A chunk that hangs is not waited for."""
        try:
            async with asyncio.timeout(RELEASE_S):
                await self._released.wait()
        except TimeoutError:
            log.error("a chunk of %s still runs; its reply slot stays taken", self._ident)

    def _release(self) -> None:
        """The slot is free once none of the session's chunks runs."""
        self._jobs.close()
        self._released.set()

    def _on_lease(self, slots: int) -> None:
        observer = self._services.observer
        (observer.lease_taken if slots > 0 else observer.lease_returned)("llm")

    # messages

    def _on_message(self, message: wire.ClientMessage | wire.AudioFrame) -> None:
        now = self._clock()
        turns = self._turns
        match message:
            case wire.AudioFrame(_, offset_samples, pcm):
                self._ears.on_audio(pcm, offset_samples)
                self._arm()
            case wire.Playback(epoch, played_samples):
                self._pump(turns.on_report(epoch, played_samples, now))
            case wire.HistoryTruncate(epoch, heard_ms):
                played = round(heard_ms * self._jobs.output_rate / 1000)
                self._pump(turns.on_cut(epoch, played, now))
            case wire.InputCommit(even_empty):
                # What was said before it counts, also where the VAD has not come to it yet.
                self._ears.after_what_arrived(
                    lambda now, hearing: self._pump(turns.on_commit_asked(now, hearing, even_empty))
                )
            case wire.InputClear():
                self._ears.after_what_arrived(lambda now, _: self._clear(now))
            case wire.InputText(text):
                self._pump(turns.on_text(text, now))
            case wire.ReplyCreate():
                self._pump(turns.on_create(now, ask_of(message, self._settings.tools)))
            case wire.ReplyCancel():
                self._pump(turns.on_cancel(now))
            case wire.SessionUpdate():
                self._update(message)
            case wire.HistoryAdd() | wire.HistoryCall() | wire.HistoryDelete() | wire.ToolResult():
                self._on_history(message)
            case wire.SessionStart():
                raise OutOfOrder("the session has been started already")
            case _:
                kind = type(message).__struct_config__.tag
                raise Unsupported(f"{kind} is not offered", field="type")

    def _on_history(
        self, message: wire.HistoryAdd | wire.HistoryCall | wire.HistoryDelete | wire.ToolResult
    ) -> None:
        turns = self._turns
        if isinstance(message, wire.HistoryDelete):
            self._pump(turns.on_delete(message.id))
            return
        name = message.id or (message.call_id if isinstance(message, wire.HistoryCall) else "")
        if turns.has_line(name):
            raise BadField(f"{message.__struct_config__.tag}: there is a line of that name", field="id")
        if message.after and not turns.has_line(message.after):
            raise BadField(f"{message.__struct_config__.tag}: there is no line of that name", field="after")
        match message:
            case wire.HistoryAdd(role, text):
                line = core.Line(role, text)
            case wire.HistoryCall(call_id, tool, arguments):
                line = core.Line("call", arguments, call_id, tool)
            case wire.ToolResult(call_id, output):
                line = core.Line("tool", output, call_id)
        self._pump(turns.on_line(line, name, message.after))

    def _update(self, message: wire.SessionUpdate) -> None:
        settings = turn_settings(self._services, message, self._budget_ms, self._jobs.output_rate)
        self._settings = settings
        self._pump(self._turns.on_settings(settings))

    def _clear(self, now: float) -> None:
        self._ears.forget()
        self._pump(self._turns.on_clear(now))

    # carrying out

    def _pump(self, commands: list[core.TurnCommand]) -> None:
        device = self._services.device
        for command in commands:
            match command:
                case core.Submit():
                    self._submit(command)
                case core.Retire(epoch, revision):
                    self._jobs.abandon_reply()
                    device.retire(self._ident, epoch, revision)
                case core.Promote(epoch, due, kinds):
                    device.promote(self._ident, epoch, due, kinds)
                case core.Withdraw(work):
                    device.withdraw(work)
                case _:
                    self._announce(command)
        self._claim.update(self._turns.latest_start(self._clock()))
        self._arm()
        self._grant()

    def _submit(self, command: core.Submit) -> None:
        services = self._services
        chunk = self._jobs.call(command, self._turns.span(), self._clock())
        if isinstance(command.task, core.Think) and command.work.kind is core.WorkKind.THINK:
            self._tally.begin(command.work, self._jobs.prompt_tokens)
        others_wait = services.device.has_waiting(command.work.kind)
        work = services.forecaster.price(command.work, chunk.load, command.way, others_wait=others_wait)
        expected_s = services.forecaster.mean_s(work.kind, chunk.load) if work.kind in _DECODES else None

        def tell(*, running: bool) -> None:
            if expected_s is not None:
                self._turns.on_expected(work, expected_s, running, self._clock())

        def begin() -> None:
            chunk.before()
            tell(running=True)

        tell(running=False)
        services.device.submit(
            work,
            chunk.call,
            blocking=chunk.blocks,
            answer=lambda outcome: self._on_outcome(outcome, chunk.on_lost),
            is_whole=is_whole,
            before=begin,
            together=chunk.together,
        )

    def _announce(self, command: core.TurnCommand) -> None:
        if isinstance(command, core.TurnEnded):
            self._note(command.record)
        elif isinstance(command, core.TurnFailed):
            self._services.observer.engine_failed(command.stage.value)
        elif isinstance(command, core.Corrected):
            self._services.observer.transcript_corrected()
        self._tell_more(command)
        message = to_wire(command)
        assert message is not None
        self._outbox.put(message)

    def _tell_more(self, command: core.TurnCommand) -> None:
        """What goes before it."""
        span = self._turns.span()
        match command:
            case core.SpeechStarted(turn) if span is not None:
                self._outbox.put(wire.MediaTime(turn, 1000 * span.start // INTERNAL_HZ))
            case core.Committed(turn) if span is not None:
                self._outbox.put(wire.MediaTime(turn, 1000 * self._turns.heard_to // INTERNAL_HZ))
            case core.ReplyDone() | core.ReplyInterrupted() | core.Reopened() | core.TurnEnded():
                made = self._tally.take()
                if made is not None:
                    self._outbox.put(made)

    def _note(self, record: core.TurnRecord) -> None:
        self._turn_over.set()
        self._services.observer.turn_ended(record.verdict.value, record.felt_estimate_s, record.system_s)
        self._services.on_record(self._ident, record)
        if self._streak.on_turn(record.verdict) and not self._broken.done():
            self._broken.set_exception(EngineExhausted("too many turns in a row have failed; try again later"))
        for way in record.ways:
            self._services.forecaster.on_way(way)
        self._turns.on_outlook(self._services.forecaster.outlook())

    def _ready(self) -> wire.SessionReady:
        return wire.SessionReady(
            session=self._ident,
            protocol=wire.PROTOCOL,
            output_rate=self._jobs.output_rate,
            budget_ms=self._budget_ms,
            achievable_ms=self._services.achievable_ms,
            resume=None if self._seat is None else self._seat.token,
            resumed=self._seat is not None and self._seat.kept is not None,
        )

    def _on_outcome(self, outcome: Outcome, on_lost: OnLost) -> None:
        def act() -> None:
            now = self._clock()
            if isinstance(outcome, Failed) and outcome.still is not None:
                on_lost(outcome.still)
            self._follow_pressure()
            match outcome:
                case Done(core.Work(kind=core.WorkKind.SECOND_PASS) as work, _, Transcript() as heard):
                    self._pump(self._turns.on_reheard(work, heard.text, heard.final))
                case Done(work, timing, Decoded(heard, upto)):
                    self._pump(self._turns.on_transcript(work, heard.stable, heard.tentative, upto, timing, now))
                case Done(work, timing, LlmStep() as step):
                    self._on_step(work, step, timing, now)
                case Done(work, _, float() as score):
                    self._pump(self._turns.on_score(work, score, now))
                case Done(work, timing, Spoken(pcm, last)):
                    self._pump(self._turns.on_spoken(work, pcm, last, timing, now))
                case Failed(work, error):
                    if work.kind is core.WorkKind.JUDGE:  # no turn will fail of it, and tell
                        self._services.observer.engine_failed(work.kind.stage.value)
                    log.error("%s failed: %s: %s", work.kind, error.code, error.message)
                    self._pump(self._turns.on_engine_failed(work, error.code, now))
                case Dropped(work):
                    self._pump(self._turns.on_discarded(work))
                case _:
                    raise AssertionError(f"unexpected outcome {type(outcome)}")

        self._guarded(act)

    def _on_step(self, work: core.Work, step: LlmStep, timing: core.Timing, now: float) -> None:
        self._tell_spare(work)
        self._tally.on_step(work, step)
        try:
            calls = checked_calls(step.calls, self._jobs.tools)
        except BadToolCall as error:
            log.error("%s failed: %s: %s", work.kind, error.code, error.message)
            self._pump(self._turns.on_engine_failed(work, error.code, now))
            return
        finished = step.finish is not None
        self._pump(self._turns.on_thought(work, step.text, finished, timing, now, calls))

    def _follow_pressure(self) -> None:
        """What is begun ahead is begun on an outcome, so that it is soon enough to look before each."""
        sheds = self._services.pressure() >= Level.SHED_SPECULATION
        if sheds is not self._sheds:
            self._sheds = sheds
            self._turns.on_shed(sheds)

    def _tell_spare(self, work: core.Work) -> None:
        """The turn's next step may be for the sake of others."""
        spare_s = self._services.device.spare_s(work.kind, self._ident)
        if spare_s != self._spare_s:
            self._spare_s = spare_s
            self._turns.on_spare(spare_s)

    def _arm(self) -> None:
        """The one timer, at the earliest deadline."""
        deadlines = [self._turns.next_deadline(), self._ears.next_deadline(), self._claim.next_deadline()]
        deadline = min((d for d in deadlines if d is not None), default=None)
        if self._timer is not None:
            if self._timer.when() == deadline and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(deadline, self._guarded, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._ears.on_timer()
        # The loop may fire a little early by its clock's resolution: never before the deadline it was set to.
        self._pump(self._turns.on_timer(self._clock()))

    def _guarded(self, act: Callable[[], None]) -> None:
        """Run a callback of the loop or the device; what it raises ends this session and no other."""
        try:
            act()
        except Exception as exc:  # the connection boundary, for callbacks
            if not self._broken.done():
                self._broken.set_exception(exc)
