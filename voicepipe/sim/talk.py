"""One session: what its caller does goes into the turns, what these ask for is carried out, and its outcome goes
back into them. What the server's session does with frames and sockets, this does with events.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from voicepipe.core.claiming import Claiming, Reserve, Unreserve
from voicepipe.core.events import (
    Acknowledged,
    Committed,
    Load,
    Lull,
    Promote,
    Quiet,
    ReplyAudio,
    ReplyDone,
    Retire,
    Silence,
    SoftEnd,
    Speak,
    Submit,
    Swell,
    Timing,
    TurnCommand,
    TurnEnded,
    TurnRecord,
    Withdraw,
    Work,
    WorkKind,
)
from voicepipe.core.overload import Level
from voicepipe.core.playout import BYTES_PER_SAMPLE
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import DOWNLINK_S, Phase
from voicepipe.sim.caller import Call, Utterance
from voicepipe.sim.draws import Draw
from voicepipe.sim.ears import Listener, Told
from voicepipe.sim.house import House
from voicepipe.sim.playback import Playback
from voicepipe.sim.slot import Generation
from voicepipe.sim.steps import Decode, Steps
from voicepipe.sim.timeline import Event
from voicepipe.sim.voice import Piece

_DECODES = (WorkKind.PARTIAL, WorkKind.FINAL)
_ONLY_HEARING = frozenset({Silence, Quiet, Lull, Swell})
"""Mean nothing to a turn that has been committed."""
_FRAME_HEARD = Load("ears", 1)


class Talk:
    def __init__(self, house: House, ident: str, call: Call) -> None:
        self.ident = ident
        self.call = call
        self.records: list[TurnRecord] = []
        self.clauses: dict[int, int] = {}
        """Words of each turn's newest first clause."""
        self._house = house
        self._timeline = house.timeline
        self._machine = house.machine
        self._turns = Turns(ident, house.settings, count(1))
        self._listener = Listener(house.ears, call.at)
        self._steps = Steps(house, self._listener)
        self._claiming = Claiming()
        self._expected: dict[int, float] = {}
        """Of decodes at the machine, by work id."""
        self._told: Iterator[Told] = iter(())
        self._tail: Iterator[Told] = iter(())
        """What is told of the present utterance, and of the silence behind it."""
        self._next_told: Told | None = None
        self._hands: tuple[float, float] = (0.0, 0.0)
        """Hand-offs around the detector's chunk."""
        self._ear: Event | None = None
        self._timer: Event | None = None
        self._reporter: Event | None = None
        self._playback: Playback | None = None
        self._epoch = 0
        """Of the newest commit."""
        self._sounding = 0
        """Epoch of the newest reply of which something has gone out."""
        self._front: Acknowledged | None = None
        self._sheds = False
        self._spare_s: float | None = None
        self._over = False

    def open(self) -> None:
        house, timeline = self._house, self._timeline
        house.leases["llm"] += 1
        self._turns.on_outlook(house.forecaster.outlook())
        self._pump(self._turns.on_opened(timeline.now))
        for number, said in enumerate(self.call.said):
            if number not in self.call.unasked:
                timeline.at(said.begin, lambda number=number, said=said: self._say(number, said))  # type: ignore[misc]

    def close(self) -> None:
        """The caller hangs up; a turn that is under way gets its verdict."""
        for command in self._turns.on_closed(self._timeline.now):
            if isinstance(command, TurnEnded):
                self._note(command.record)
        self._over = True
        for event in (self._ear, self._timer, self._reporter):
            if event is not None:
                event.cancel()
        self._machine.leave(self.ident, self._release)

    def _release(self) -> None:
        self._house.leases["llm"] -= 1

    # the caller

    def _say(self, number: int, said: Utterance) -> None:
        if self._over:
            return
        self._steps.say(number, said)
        times, draw = self._house.times, self._draw("hear")
        self._hands = begin_s, end_s = times.begin_s(draw.begin), times.end_s(draw.end)
        listen_s = begin_s + times.service_s(WorkKind.HEAR, _FRAME_HEARD, draw.service) + end_s
        if self._ear is not None:
            self._ear.cancel()
        over_reply = self._turns.phase is Phase.COMMITTED
        self._told = iter(self._listener.told(said, listen_s, over_reply=over_reply))
        self._tail = self._listener.silence()
        self._hark()

    def _hark(self) -> None:
        """The next event that can mean anything: only speech begins a turn, or goes on with one that was
        committed, and behind an utterance there is none."""
        hears = self._turns.phase is Phase.HEARING
        self._ear = None
        for told in self._told:
            if not (told.early if hears else type(told.event) in _ONLY_HEARING):
                self._expect(told)
                return
        if hears:
            told_later = next(self._tail, None)
            if told_later is not None:
                self._expect(told_later)

    def _expect(self, told: Told) -> None:
        self._next_told = told
        self._ear = self._timeline.at(told.at, self._on_told)

    def _on_told(self) -> None:
        told = self._next_told
        assert told is not None
        decides = isinstance(told.event, SoftEnd | Silence)
        hearing = self._listener.hearing(told, *self._hands) if decides else None
        self._pump(self._turns.on_endpoint(told.event, told.spoken_at, self._timeline.now, hearing))
        self._hark()

    # the machine

    def on_run(self, work: Work) -> None:
        if work.kind in _DECODES:
            self._steps.begin(work)
            expected_s = self._expected.get(work.id)
            if expected_s is not None:
                self._turns.on_expected(work, expected_s, True, self._timeline.now)

    def on_ran(self, work: Work, timing: Timing) -> None:
        now, turns = self._timeline.now, self._turns
        self._follow_pressure()
        match self._steps.end(work):
            case Decode() as decode if work.kind is WorkKind.SECOND_PASS:
                self._pump(turns.on_reheard(work, self._steps.hear(decode, full=True).stable, True))
            case Decode() as decode:
                self._expected.pop(work.id, None)
                heard = self._steps.hear(decode, full=work.kind is WorkKind.FINAL)
                self._pump(turns.on_transcript(work, heard.stable, heard.tentative, decode.upto, timing, now))
            case Generation() as generation:
                text, finished = generation.step()
                self._tell_spare(work)
                self._pump(turns.on_thought(work, text, finished, timing, now))
            case Piece() as piece:
                pcm, last = piece.make()
                self._pump(turns.on_spoken(work, pcm, last, timing, now))

    def on_dropped(self, work: Work) -> None:
        self._forget(work)
        self._pump(self._turns.on_discarded(work))

    def on_failed(self, work: Work, code: str) -> None:
        self._forget(work)
        self._pump(self._turns.on_engine_failed(work, code, self._timeline.now))

    def _forget(self, work: Work) -> None:
        self._steps.end(work)
        self._expected.pop(work.id, None)

    def _submit(self, command: Submit, now: float) -> None:
        work, forecaster, task = command.work, self._house.forecaster, command.task
        if isinstance(task, Speak) and task.first:
            self.clauses[work.turn] = task.text.count(" ") + 1
        load = self._steps.load(command, self._turns.span(), now)
        others_wait = self._machine.has_waiting(work.kind)
        priced = forecaster.price(work, load, command.way, others_wait=others_wait)
        if work.kind in _DECODES:
            expected_s = forecaster.mean_s(work.kind, load)
            if expected_s is not None:
                self._expected[work.id] = expected_s
                self._turns.on_expected(priced, expected_s, False, now)
        self._machine.submit(priced, self, self._steps.draw(command, load))

    def _follow_pressure(self) -> None:
        """As the server's session does: looked at before whatever is begun on an outcome."""
        sheds = self._house.level() >= Level.SHED_SPECULATION
        if sheds is not self._sheds:
            self._sheds = sheds
            self._turns.on_shed(sheds)

    def _tell_spare(self, work: Work) -> None:
        spare_s = self._machine.spare_s(work.kind, self.ident)
        if spare_s != self._spare_s:
            self._spare_s = spare_s
            self._turns.on_spare(spare_s)

    # carrying out

    def _pump(self, commands: list[TurnCommand]) -> None:
        now, machine = self._timeline.now, self._machine
        for command in commands:
            match command:
                case Submit():
                    self._submit(command, now)
                case ReplyAudio():
                    self._send(command, now)
                case Retire(epoch, revision):
                    machine.retire(self.ident, epoch, revision)
                case Promote(epoch, due, kinds):
                    machine.promote(self.ident, epoch, due, kinds)
                case Withdraw(work):
                    machine.withdraw(work)
                case Committed(_, epoch):
                    self._epoch = epoch
                case Acknowledged():
                    self._front = command
                case ReplyDone(_, epoch, samples):
                    self._on_done(epoch, samples)
                case TurnEnded(record):
                    self._note(record)
                case _:
                    pass  # what only the client is told
        if self._house.claims:
            self._claim(now)
        self._arm()

    def _claim(self, now: float) -> None:
        match self._claiming.on_latest_start(self._turns.latest_start(now), now):
            case Reserve(start):
                self._machine.reserve(self.ident, start)
            case Unreserve():
                self._machine.unreserve(self.ident)

    def _note(self, record: TurnRecord) -> None:
        assert not self.records or record.turn > self.records[-1].turn, "one verdict for each turn"
        self.records.append(record)
        house = self._house
        house.on_record(self.ident, record)
        for way in record.ways:
            house.forecaster.on_way(way)
        self._turns.on_outlook(house.forecaster.outlook())

    def _arm(self) -> None:
        """The one timer. One that is set too early sets itself anew when it fires."""
        deadline = self._turns.next_deadline()
        renew = self._claiming.next_deadline()
        if deadline is None or (renew is not None and renew < deadline):
            deadline = renew
        timer = self._timer
        if deadline is None or (timer is not None and timer.when <= deadline):
            return
        if timer is not None:
            timer.cancel()
        self._timer = self._timeline.at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now, due = self._timeline.now, self._turns.next_deadline()
        if due is not None and due <= now:
            self._pump(self._turns.on_timer(now))
        else:
            self._pump([])

    # the client

    def _send(self, audio: ReplyAudio, now: float) -> None:
        """To the socket, and from there to where it is heard."""
        assert audio.epoch == self._epoch, "nothing of a reply leaves before its commit"
        samples = len(audio.pcm) // BYTES_PER_SAMPLE
        front = self._front
        if front is not None and front.epoch == audio.epoch and audio.offset < front.samples:
            if audio.offset == 0:
                self._timeline.after(self._send_s(), lambda: self._on_acknowledged(audio.epoch))
        elif audio.epoch != self._sounding:
            self._sounding = audio.epoch
            self._timeline.after(self._send_s(), lambda: self._on_sent(audio.epoch))
        if self.call.report_every_s > 0.0:
            self._play(audio.epoch, samples, now + DOWNLINK_S)

    def _send_s(self) -> float:
        return self._house.times.send_s(self._draw("send").service)

    def _draw(self, piece: str) -> Draw:
        """The luck of what belongs to the newest utterance."""
        return self._house.draws.of(self.ident, self._steps.asked, piece)

    def _on_sent(self, epoch: int) -> None:
        if not self._over and epoch >= self._turns.epoch:
            self._pump(self._turns.on_sent(epoch, self._timeline.now))

    def _on_acknowledged(self, epoch: int) -> None:
        if not self._over and epoch >= self._turns.epoch:
            self._pump(self._turns.on_acknowledged(epoch, self._timeline.now))

    def _play(self, epoch: int, samples: int, arrived: float) -> None:
        playback = self._playback
        if playback is None or playback.epoch != epoch:
            playback = self._playback = Playback(epoch, self._house.manner.rate_hz, arrived)
            self._report_at(arrived + self.call.report_every_s)
        playback.on_audio(samples, arrived)

    def _on_done(self, epoch: int, samples: int) -> None:
        playback = self._playback
        if playback is not None and playback.epoch == epoch:
            playback.whole = samples
            if self._reporter is not None and playback.ends < self._reporter.when:
                self._report_at(playback.ends)

    def _report_at(self, when: float) -> None:
        if self._reporter is not None:
            self._reporter.cancel()
        self._reporter = self._timeline.at(when, self._report)

    def _report(self) -> None:
        playback, now, self._reporter = self._playback, self._timeline.now, None
        assert playback is not None
        if playback.epoch != self._turns.epoch:
            return  # it was stopped
        self._pump(self._turns.on_report(playback.epoch, playback.played(now), now))
        if not playback.is_over(now):
            at = now + self.call.report_every_s
            self._report_at(at if playback.whole is None else min(at, max(now, playback.ends)))
