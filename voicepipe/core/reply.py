"""One reply: thoughts become clauses, clauses become audio, audio is held until it is released.

Keeps at most one Llm step and one Tts step at the device, and works only so far ahead: `hold_s` of audio
before the release (speculation is bounded), `ahead_s` beyond the playback frontier after it. Content that comes
late may be preceded by an acknowledgement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from voicepipe.core.budget import Ledger
from voicepipe.core.clauses import FIRST, HURRIED, ClauseSplitter, is_shortened
from voicepipe.core.events import (
    URGENT_S,
    Acknowledged,
    Call,
    Line,
    ReplyAudio,
    ReplyDone,
    ReplyText,
    Rung,
    Speak,
    Stage,
    Submit,
    Think,
    ToolCalled,
    Tools,
    TurnCommand,
    Way,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.playout import (
    BYTES_PER_SAMPLE,
    AllHeard,
    AllSent,
    ClauseBegins,
    Frame,
    Playout,
    PlayoutCommand,
    PlayoutSettings,
)


@dataclass(frozen=True, slots=True)
class ReplySettings:
    playout: PlayoutSettings
    max_tokens: int = 160
    hold_s: float = 0.4
    """Audio made before the release: its first piece, unless that is very short. More would keep the device from
    hearing how the user ends."""
    may_cut: bool = True
    """A first clause that is expected to come too late is cut short."""
    hurried: bool = False
    """There is no time to spare, so that first clauses are short from the start."""
    ahead_s: float = 3.0
    """Audio made beyond the playback frontier after it."""
    pending_clauses: int = 2
    """Clauses that may wait for the Tts before the Llm pauses."""
    spoken: bool = True
    """False: it is given in writing."""
    hold_characters: int = 40
    """Of a written reply, made before the release."""


HURRIED_FROM = 0.5
"""Where the work of an unhurried turn takes this share of the budget, first clauses are short from the start. The
warm-up has measured a turn that waits for nothing; in a session it waits for the pause to be seen (30 ms), and for
the chunk that runs (up to 100)."""


def is_hurried(work_s: float, budget_s: float) -> bool:
    """`work_s`: what the work of a turn takes that begins when speech ends and waits for nothing."""
    return work_s > HURRIED_FROM * budget_s


def left_s(usual_s: float, elapsed_s: float) -> float:
    """What is left of a step that usually takes so long. Overdue, it may end at any moment; once it has taken twice
    as long, that is worth nothing any more, and it is taken for one that has just begun."""
    return max(0.0, usual_s - elapsed_s) if elapsed_s < 2 * usual_s else usual_s


@dataclass(frozen=True, slots=True)
class ReplyId:
    session: str
    turn: int
    epoch: int
    revision: int


class Reply:
    def __init__(
        self,
        ident: ReplyId,
        settings: ReplySettings,
        ledger: Ledger,
        serial: Iterator[int],
        outlook: Outlook = Outlook(),  # noqa: B008 - a value
    ) -> None:
        """`outlook`: what is typical on the device."""
        self.way = Way()
        """How far it has come towards its first audio."""
        self._outlook = outlook
        self._small = False
        self.ident = ident
        self.playout = Playout(settings.playout)
        self._settings = settings
        self._ledger = ledger
        self._serial = serial
        self._splitter = ClauseSplitter(HURRIED if settings.hurried else FIRST)
        self._clauses: deque[str] = deque()
        self._thinking = False
        self._thought_out = False
        self._speaking = False
        self._in_clause = False
        self._spoken_out = False
        self._released = False
        self._first_clause = True
        self._since = 0.0
        """When the step towards the first content that is under way began: the clause, then its audio."""
        self._told = self._acknowledged = False
        self.finished = False
        """The whole reply has been heard; or it has been made in writing, and the first of it was handed to the
        socket."""
        self.called: tuple[Call, ...] = ()
        """The tools that the client was told to run."""
        self.cut_at: int | None = None
        """So many samples, and no more of it, were heard, as the client says; None where it has not said so."""
        self._calls: tuple[Call, ...] = ()
        self._filled = False
        """It has been said whether something is heard while its tools run."""
        self._written: list[str] = []
        self._unwritten = ""
        """What has not been handed out of a written reply."""
        self._sent = self._ended = False
        """Of a written reply: its first piece was handed to the socket; all of it has been handed out."""
        self.spare_s: float | None = None
        """How long it may keep the device before another turn is late; None: nobody waits whom it could make so."""
        self.awaited = False
        """What it answers is all that was said, and sounds finished: no guess any more, though not released yet."""

    @property
    def waits_for(self) -> Stage | None:
        """The stage that owes this reply a result; of two, the earlier one."""
        if self._thinking:
            return Stage.LLM
        return Stage.TTS if self._speaking else None

    @property
    def on_its_way(self) -> bool:
        """The first of its content has been handed out."""
        return self._told

    @property
    def is_untold(self) -> bool:
        """Nothing of it, nor any sound in its stead, has been handed out: another one may take its place."""
        return not (self._told or self._acknowledged or self.called)

    @property
    def made(self) -> bool:
        """All of it has been made, be it heard or not."""
        return self._spoken_out

    @property
    def only_calls(self) -> bool:
        """It has been released and made, and there is nothing in it but calls of tools: an acknowledgement is no
        content."""
        return self._released and self._spoken_out and bool(self._calls) and not self.has_content

    @property
    def may_be_filled(self) -> bool:
        """The same, and whether something is to be heard meanwhile has not been said: see `fill`."""
        return self.spoken and self.only_calls and not self._filled

    @property
    def silent(self) -> bool:
        """It is complete, and there is nothing in it: no sound, no text, no call of a tool."""
        return self._spoken_out and not self.has_content and not self._calls

    @property
    def spoken(self) -> bool:
        return self._settings.spoken

    @property
    def has_content(self) -> bool:
        """Some of what will be heard, or read, has been made."""
        return self.playout.has_content or bool("".join(self._written).strip())

    def text(self) -> str:
        """All of it."""
        return self.playout.text() if self.spoken else "".join(self._written).strip()

    def heard_text(self, now: float) -> str:
        """What of it has come to the user's ears or eyes, as far as is known."""
        if not self.spoken:
            return "".join(self._written).removesuffix(self._unwritten).strip()
        heard = self.playout.heard_samples(now)
        return self.playout.text_until(heard if self.cut_at is None else min(heard, self.cut_at))

    def content_in_s(self, now: float) -> float:
        """When its first content is expected, from now, by what the steps on the way to it usually take."""
        if self.playout.has_content:
            return 0.0
        if not self._first_clause:
            return left_s(self._outlook.left_s(self.way), now - self._since)
        if self._clauses:
            return self._outlook.left_s(self.way)
        return left_s(self._outlook.clause_s, now - self._since) + self._outlook.audio_s

    def owns(self, work: Work) -> bool:
        return (work.epoch, work.revision) == (self.ident.epoch, self.ident.revision)

    # events

    def begin(
        self,
        lines: tuple[Line, ...],
        now: float,
        *,
        small: bool = False,
        tools: Tools = Tools(),  # noqa: B008
    ) -> list[TurnCommand]:
        """`small`: by the smaller model, for the sake of the deadline."""
        self._ledger.on_reply_begun(now)
        if small:
            self._ledger.on_rung(Rung.SMALL_MODEL)
        self._small = small
        self._since = now
        return [self._think(now, Think(lines, self._settings.max_tokens, small, tools))]

    def on_thought(
        self, text: str, finished: bool, now: float, service_s: float = 0.0, calls: tuple[Call, ...] = ()
    ) -> list[TurnCommand]:
        """A step of the model, which took `service_s`. `calls`: of tools, as the end of it."""
        self._thinking = False
        self._calls += calls
        no_clause_yet = self.way.clause_characters is None
        if no_clause_yet:
            self.way = self.way.after(service_s)
        if (text or finished) and not self.way.has_token:  # else it still reads
            self._ledger.on_llm_first(now)
            self.way = replace(self.way, has_token=True)
        if text.strip():
            self._ledger.on_answer_first(now)
        if not self.spoken:
            return self._on_written(text, finished, now)
        self._clauses.extend(self._splitter.feed(text))
        cut_short = self._first_clause and self._hurry(now)
        if finished:
            self._thought_out = True
            self._clauses.extend(self._splitter.flush())
        if self._clauses and no_clause_yet:
            self._ledger.on_clause(now)
            self._note_way(cut=cut_short)
            self.way = replace(self.way, clause_characters=len(self._clauses[0]))
            self.predict(now)
        return self._advance(now)

    def on_spoken(self, pcm: bytes, last: bool, now: float) -> list[TurnCommand]:
        self._speaking = False
        if pcm and not self.way.has_audio:
            self._ledger.on_audio(now)
            self.way = replace(self.way, has_audio=True)
            self.predict(now)
        commands = self._translate(self.playout.on_audio(pcm, now))
        self._ledger.on_stalled(self.playout.stalled_s)
        self._in_clause = not last
        return commands + self._advance(now)

    def on_release(self, now: float) -> list[TurnCommand]:
        self._released = True
        if not self.spoken:
            return self._hand_out(now)
        return self._translate(self.playout.on_release(now)) + self._advance(now) + self._call()

    def acknowledge(self, pcm: bytes, now: float) -> list[TurnCommand]:
        """A sound that is no content goes before it; it has been released, and has no content yet."""
        self._acknowledged = True
        told = Acknowledged(self.ident.turn, self.ident.epoch, len(pcm) // BYTES_PER_SAMPLE)
        return [told, *self._translate(self.playout.on_acknowledgement(pcm, now))]

    def fill(self, pcm: bytes | None, now: float) -> list[TurnCommand]:
        """It only calls tools: let this sound be heard meanwhile, or nothing. One that was acknowledged already
        gets no other. Then it is complete."""
        self._filled = True
        heard = [] if pcm is None or self.playout.acknowledged else self.acknowledge(pcm, now)
        return heard + self._translate(self.playout.on_last(now))

    def on_report(self, played_samples: int, now: float) -> list[TurnCommand]:
        return self._translate(self.playout.on_report(played_samples, now)) + self._advance(now)

    def on_timer(self, now: float) -> list[TurnCommand]:
        return self._translate(self.playout.on_timer(now)) + self._advance(now)

    def on_dropped(self) -> None:
        """It will not be gone on with."""
        if self.way.clause_characters is None:
            self._note_way(cut=True)

    def next_deadline(self) -> float | None:
        return self.playout.next_deadline()

    def predict(self, now: float) -> None:
        """A boundary between stages: note in the ledger what is expected from here on."""
        stage = Stage.LLM if self.way.clause_characters is None else Stage.TTS
        stage = Stage.SEND if self.way.has_audio else stage
        self._ledger.on_predicted(stage, self._outlook.left_s(self.way), now)

    # in writing

    def on_sent(self) -> None:
        """The first of its content was handed to the socket."""
        self._sent = True
        self.finished = self.finished or self._ended

    def _on_written(self, text: str, finished: bool, now: float) -> list[TurnCommand]:
        """What is written needs no clauses and no voice."""
        self._written.append(text)
        self._unwritten += text
        self._thought_out = self._thought_out or finished
        if self.has_content and not self.way.has_audio:
            self._ledger.on_clause(now)
            self._ledger.on_audio(now)
            self.way = replace(self.way, clause_characters=len(text), has_audio=True)
        return self._hand_out(now)

    def _hand_out(self, now: float) -> list[TurnCommand]:
        """After the release: what there is, and the end."""
        commands: list[TurnCommand] = []
        turn, epoch = self.ident.turn, self.ident.epoch
        if self._released and self._unwritten and self.has_content:
            commands.append(ReplyText(turn, epoch, self._unwritten, spoken=False))
            self._unwritten, self._told = "", True
        if self._thought_out:
            self._spoken_out = True
            if self._released and not self._ended:
                if self.has_content:
                    commands.append(ReplyDone(turn, epoch, 0))
                commands += self._call()
                self._ended = True
                self.finished = self._sent or not self.has_content
        elif not self._thinking and self._wants_text(now):
            commands.append(self._think(now))
        return commands

    def _call(self) -> list[TurnCommand]:
        """Tools are told of after the release, once all that is said before has been made."""
        if not self._released or not self._spoken_out or self.called:
            return []
        self.called = self._calls
        return [ToolCalled(self.ident.turn, self.ident.epoch, call) for call in self.called]

    # inner

    def _note_way(self, *, cut: bool) -> None:
        """Ways of the smaller model are no measure of those that are expected."""
        if not self._small:
            self._ledger.on_way(replace(self.way, cut=cut))

    def _hurry(self, now: float) -> bool:
        """Nothing has been spoken yet: take the rung where that is needed, and note it where it was taken. Was the
        clause cut short of where it would have ended?"""
        cut_short = False
        if not self._clauses and self._settings.may_cut and (self._is_late(now) or self._makes_late()):
            self._clauses.extend(self._splitter.cut_short())
            cut_short = bool(self._clauses)
        if self._clauses and is_shortened(self._clauses[0]):
            self._ledger.on_rung(Rung.SHORT_CLAUSE)
        return cut_short

    def _is_late(self, now: float) -> bool:
        """Were the model to go on to the end of a typical clause, its audio would miss the deadline or hardly meet
        it."""
        deadline = self._ledger.deadline
        return deadline is not None and now + self._outlook.left_s(self.way) >= deadline

    def _makes_late(self) -> bool:
        """The same, of another turn that waits behind this one."""
        return self.spare_s is not None and self._outlook.left_s(self.way) > self.spare_s

    def _advance(self, now: float) -> list[TurnCommand]:
        """Submit what may run next, and close the audio once everything has been said."""
        commands: list[TurnCommand] = []
        if not self._speaking and self._wants_audio(now):
            commands.append(self._speak(now))
        if not self._thinking and not self._thought_out and self._wants_text(now):
            commands.append(self._think(now))
        done = self._thought_out and not (self._clauses or self._speaking or self._in_clause)
        if done and not self._spoken_out:
            self._spoken_out = True
            commands += self._call()
            if self.playout.has_content or not self._calls:
                commands += self._translate(self.playout.on_last(now))
        return commands

    def _wants_audio(self, now: float) -> bool:
        limit_s = self._settings.ahead_s if self._released else self._settings.hold_s
        return bool(self._in_clause or self._clauses) and self.playout.ahead_s(now) < limit_s

    def _wants_text(self, now: float) -> bool:
        if not self.spoken:
            return self._released or len(self._unwritten) < self._settings.hold_characters
        if not self._released:  # speculate on the first clause only
            return self._first_clause and not self._clauses
        return len(self._clauses) < self._settings.pending_clauses

    def _think(self, now: float, task: Think | None = None) -> Submit:
        self._thinking = True
        way = self.way if self.way.clause_characters is None else None
        return Submit(self._work(WorkKind.THINK, now), task, way)

    def _speak(self, now: float) -> Submit:
        self._speaking = True
        task = None
        if not self._in_clause:
            text = self._clauses.popleft()
            task = Speak(text, self._first_clause)
            if self._first_clause:
                self._since = now
            self._first_clause = False
            self.playout.on_clause(text)
        return Submit(self._work(WorkKind.SPEAK, now), task)

    def _work(self, kind: WorkKind, now: float) -> Work:
        ident = self.ident
        return Work(
            id=next(self._serial),
            session=ident.session,
            turn=ident.turn,
            epoch=ident.epoch,
            revision=ident.revision,
            kind=kind,
            klass=self._klass(now),
            deadline=self._deadline(now),
        )

    def _deadline(self, now: float) -> float | None:
        """The turn's until there is content to be sent; after that, when playback would run dry."""
        if self._released and self.playout.has_content:
            return now + self.playout.ahead_s(now)
        if self._told and not self.spoken:
            return None
        return self._ledger.deadline

    def _klass(self, now: float) -> WorkClass:
        if not self._released:
            started = self.awaited and not self.playout.has_content
            return WorkClass.STARTED if started else WorkClass.SPECULATION
        if not self.spoken:
            return WorkClass.AHEAD if self._told else WorkClass.STARTED
        urgent = not self.playout.has_content or self.playout.ahead_s(now) < URGENT_S
        return WorkClass.STARTED if urgent else WorkClass.AHEAD

    def _translate(self, commands: list[PlayoutCommand]) -> list[TurnCommand]:
        turn, epoch = self.ident.turn, self.ident.epoch
        out: list[TurnCommand] = []
        for command in commands:
            match command:
                case Frame(offset, pcm):
                    out.append(ReplyAudio(epoch, offset, pcm))
                case ClauseBegins(text):
                    out.append(ReplyText(turn, epoch, f" {text}" if self._told else text))
                    self._told = True
                case AllSent(samples):
                    if samples:
                        out.append(ReplyDone(turn, epoch, samples))
                case AllHeard():
                    self.finished = True
        return out
