"""A talk with `Turns`, told event by event with literal times; and a turn by itself, for what decides about one."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from voicepipe.core.events import (
    EndpointEvent,
    Line,
    Lull,
    Onset,
    Resumed,
    Silence,
    SoftEnd,
    Submit,
    Think,
    Timing,
    TurnCommand,
    TurnEnded,
    Verdict,
    Voiced,
    Work,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.numbering import Numbering
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import Reply, ReplyId, ReplySettings
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import Phase, Turn, TurnSettings, open_turn

RATE = 1000
S = 16_000
"""Samples of a second of the user's voice."""
HEARD_ALL = 60 * S
"""Where a decode ends that was made of all there was."""
SETTINGS = TurnSettings(
    reply=ReplySettings(PlayoutSettings(RATE, frame_s=0.1)),
    patience=OPERATING_POINTS["fast"],
    instructions="Be brief.",
    downlink_s=0.0,
)
NO_TIME = Timing(0.0, 0.0, 0.0)


def pcm(seconds: float) -> bytes:
    return b"\x01\x00" * round(seconds * RATE)


def kinds(commands: list[TurnCommand]) -> list[str]:
    """Names of the commands; of a Submit, the kind of work."""
    return [c.work.kind.name if isinstance(c, Submit) else type(c).__name__ for c in commands]


class Talk:
    """Turns with what was asked of the engines kept, so that a test can answer it."""

    def __init__(self, **changes: object) -> None:
        self.turns = Turns("s", replace(SETTINGS, **changes), count(1))  # type: ignore[arg-type]
        self.asked: dict[WorkKind, Work] = {}
        self.thoughts: list[Think] = []
        self.last: list[TurnCommand] = []

    def do(self, commands: list[TurnCommand]) -> list[TurnCommand]:
        for command in commands:
            if isinstance(command, Submit):
                self.asked[command.work.kind] = command.work
                if isinstance(command.task, Think) and command.work.kind is WorkKind.THINK:
                    self.thoughts.append(command.task)
        self.last = commands
        return commands

    # the user

    def speak(self, now: float, *, start: int = 0) -> list[TurnCommand]:
        """An onset, without more speech yet."""
        return self.do(self.turns.on_endpoint(Onset(start), now, now))

    def resume(self, now: float, *, start: int = 0) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(Resumed(start), now, now))

    def voiced(self, seconds: float, now: float, *, at: float | None = None) -> list[TurnCommand]:
        position = round((seconds if at is None else at) * S)
        return self.do(self.turns.on_endpoint(Voiced(round(seconds * S), position), now, now))

    def soft_end(self, now: float) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(SoftEnd(0), now, now))

    def told(self, event: EndpointEvent, now: float) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(event, now, now))

    def silence(self, seconds: float, now: float, completeness: float | None = None) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(Silence(round(seconds * S), completeness), now, now))

    # the engines

    def hear(self, text: str, now: float, work: Work | None = None, *, upto: int = HEARD_ALL) -> list[TurnCommand]:
        return self.do(self.turns.on_transcript(work or self.asked[WorkKind.FINAL], text, "", upto, NO_TIME, now))

    def think(self, text: str, now: float, *, last: bool = False, work: Work | None = None) -> list[TurnCommand]:
        work = work or self.asked[WorkKind.THINK]
        return self.do(self.turns.on_thought(work, text, last, NO_TIME, now))

    def say(self, seconds: float, now: float, *, last: bool = True, work: Work | None = None) -> list[TurnCommand]:
        work = work or self.asked[WorkKind.SPEAK]
        return self.do(self.turns.on_spoken(work, pcm(seconds), last, NO_TIME, now))

    # time

    def wait(self, until: float) -> list[TurnCommand]:
        """Let every timer fire that is due until then."""
        fired: list[TurnCommand] = []
        while (deadline := self.turns.next_deadline()) is not None and deadline <= until:
            fired += self.do(self.turns.on_timer(deadline))
        return fired

    # stories

    def until_final(self, text: str = "Hello there.") -> Talk:
        """Speech from 0 to 1.0 s; the final is there at 1.02."""
        self.speak(0.0)
        self.voiced(1.0, 1.0)
        self.soft_end(1.0)
        self.hear(text, 1.02)
        return self

    def until_committed(self, text: str = "Hello there.") -> Talk:
        """Committed at 1.1, no word of the reply yet."""
        self.until_final(text).silence(0.096, 1.1)
        assert self.phase is Phase.COMMITTED
        return self

    def until_replying(self, seconds: float = 2.0) -> Talk:
        """The whole reply "One two. Three four." is made, its first frame was sent at 1.2."""
        self.until_committed()
        self.think("One two. Three four.", 1.15, last=True)
        self.say(seconds / 2, 1.2)
        self.do(self.turns.on_sent(self.turns.epoch, 1.2))
        self.say(seconds / 2, 1.2)
        return self

    @property
    def phase(self) -> Phase:
        return self.turns.snapshot().phase

    @property
    def history(self) -> list[tuple[str, str]]:
        return [(line.role, line.text) for line in self.turns.snapshot().history]

    def verdict(self) -> Verdict:
        """Of the turn that the last commands ended."""
        (ended,) = [c for c in self.last if isinstance(c, TurnEnded)]
        return ended.record.verdict


def heard(talk: Talk, kind: WorkKind, stable: str, tentative: str, now: float) -> list[str]:
    """Of all but what was said in the last 30 ms."""
    upto = round((now - 0.03) * S)
    return kinds(talk.do(talk.turns.on_transcript(talk.asked[kind], stable, tentative, upto, NO_TIME, now)))


def lulled(talk: Talk, at_s: float) -> None:
    """Speech whose sound has fallen away at `at_s`; what was asked for then is in `asked`."""
    talk.speak(0.0)
    talk.voiced(at_s, at_s)
    talk.do(talk.turns.on_endpoint(Lull(round(at_s * S), round((at_s + 0.02) * S)), at_s, at_s + 0.02))


def spoken(numbers: Numbering, settings: TurnSettings = SETTINGS) -> Turn:
    """A turn whose speech begins at 0.0 and ends at 1.0: the deadline is 1.2, and its words are not known yet."""
    turn = open_turn(numbers, settings, 0, Outlook(), 0.0)
    turn.utterance.on_voiced(S, S, 0.0)
    turn.utterance.on_pause(S)
    turn.ledger.on_soft_end(1.0, 1.0)
    return turn


def replied(turn: Turn, *, until: float, epoch: int = 1) -> Turn:
    """The turn with the whole of its reply of one second released at `until`."""
    turn.reply = Reply(ReplyId("s", turn.number, epoch, 0), SETTINGS.reply, turn.ledger, count(50))
    turn.reply.begin((Line("user", "Hello."),), until)
    turn.reply.on_thought("One two.", True, until)
    turn.reply.on_spoken(pcm(1.0), True, until)
    turn.phase = Phase.COMMITTED
    turn.reply.on_release(until)
    return turn
