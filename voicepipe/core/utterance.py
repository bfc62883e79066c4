"""What the user says in one turn: which decodes to ask for, the text, and how long the pause has lasted.

One partial and two full decodes are in flight at most. A lull asks for a full decode ahead of time, unless a
partial has heard all that was said by then. Where the pause that follows shows that nothing came after it, what
such a decode brought is the final text. Else the pause asks for one. Speech that goes on takes the pause back; what
a decode then brings is shown, no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from voicepipe.core.events import Lull, Submit, TurnCommand, Withdraw, Work, WorkClass, WorkKind
from voicepipe.core.judging import Judging, MakeWork
from voicepipe.core.patience import (
    Patience,
    is_quiet_enough,
    is_worth_asking,
    needed_silence_s,
    sounds_finished,
)

RATE_HZ = 16_000

UNDECIDED = 0.5


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    first_partial_s: float = 0.5
    """Less speech than this decodes to noise."""
    min_hop_s: float = 0.128
    max_hop_s: float = 0.96
    hop_factor: float = 1.5
    """The hop is so many times the duration of a step, waiting included. What is decoded 100 ms before the end of
    speech is mostly the final text, and what is decoded 400 ms before it is not: replies ahead need short hops."""
    lull_factor: float = 0.5
    """A lull is decoded if so many steps' worth of sound has come since the last decode."""
    max_in_flight: int = 2
    """Full decodes: one that runs and one that waits."""
    first_ahead_s: float = 0.2
    """Speech from which on a lull is worth a decode: a "yes"."""
    unheard_s: float = 0.08
    """How long before the first silent frame a decode may end and still have heard all: detectors hold speech for
    30 to 100 ms after its end (on read questions 0 to 60 ms up to the frame's begin)."""
    tail_s: float = 0.06
    """So much of the end of the last word may be missing: of 180 turns cut 0 / 20 / 40 / 60 / 80 / 100 ms before
    the sound fell away, 175 / 176 / 172 / 172 / 171 / 155 brought the words that they bring in full."""


@dataclass(frozen=True, slots=True)
class Span:
    """What the recogniser is to hear: the utterance of `turn`, from `start` on (16 kHz samples)."""

    turn: int
    start: int
    speech_samples: int


@dataclass(frozen=True, slots=True)
class Partial:
    stable: str
    tentative: str


@dataclass(frozen=True, slots=True)
class Ahead:
    """All that has been said so far, while the detector still says speech."""

    text: str
    unneeded: tuple[Work, ...] = ()
    """Decodes in flight that would bring the same."""


@dataclass(frozen=True, slots=True)
class Final:
    text: str
    unneeded: tuple[Work, ...] = ()


@dataclass(frozen=True, slots=True)
class _Expected:
    """Of a decode in flight."""

    service_s: float
    began: float | None
    """None while it waits."""

    def left_s(self, now: float) -> float:
        return self.service_s if self.began is None else max(0.0, self.began + self.service_s - now)


@dataclass(frozen=True, slots=True)
class _Heard:
    text: str
    upto: int


class Speaking(Enum):
    SPEECH = auto()
    PAUSE = auto()


class Utterance:
    def __init__(self, start: int, make_work: MakeWork, settings: DecodeSettings) -> None:
        self.start = start
        self.text: str | None = None
        """Text of this pause's final decode; None while there is none."""
        self.commit_asked = False
        """The client, or the length limit, ends the turn whatever the silence."""
        self.state = Speaking.SPEECH
        self._make_work = make_work
        self._settings = settings
        self._fulls: dict[Work, int] = {}
        """Full decodes in flight, and how far each hears."""
        self._expected: dict[Work, _Expected] = {}
        """Of decodes in flight."""
        self._final: Work | None = None
        """The one of them that will bring this pause's text."""
        self._last: _Heard | None = None
        """What the newest decode brought that may be all."""
        self._partial: Work | None = None
        self._decoded_to = start
        self._sounded_to = start
        self._quiet_from: int | None = None
        self._quiet_s = 0.0
        """How long the lull has lasted."""
        self._silent_from: int | None = None
        """The pause's first silent frame; None where it has none."""
        self._paused_at: int | None = None
        """Where the sound before the present pause ended."""
        self._shown = Partial("", "")
        self._voiced_before = 0
        self._voiced = 0
        self._silence_s = 0.0
        self._judging = Judging(make_work)

    # events

    def on_voiced(self, samples: int, at: int, step_s: float) -> list[TurnCommand]:
        """Speech has gone on for `samples`, to position `at`. `step_s`: what a decode has lately taken."""
        self._voiced, self._sounded_to = samples, at
        limits = self._settings
        hop_s = min(max(limits.hop_factor * step_s, limits.min_hop_s), limits.max_hop_s)
        due = at - self._decoded_to >= hop_s * RATE_HZ
        if self._partial is not None or self._fulls or not due:
            return []
        if self.speech_samples < limits.first_partial_s * RATE_HZ:
            return []
        self._decoded_to = at
        self._partial = self._make_work(WorkKind.PARTIAL, WorkClass.ASR)
        return [Submit(self._partial)]

    def on_lull(self, lull: Lull, step_s: float) -> list[TurnCommand] | Ahead:
        """Speech may have ended: decode all of it now, unless that has been done, or would take too much of the
        device. A partial that is being made may turn out to be enough; the full decode waits behind it."""
        self._quiet_from = lull.quiet_from
        limits = self._settings
        if self.state is not Speaking.SPEECH or len(self._fulls) >= limits.max_in_flight:
            return []
        if self._last is not None and self._heard_all(self._last.upto, None):
            return Ahead(self._last.text)
        if self.speech_samples < limits.first_ahead_s * RATE_HZ:
            return []
        new_s = (lull.upto - self._decoded_to) / RATE_HZ
        if self._partial is None and new_s < limits.lull_factor * step_s:
            return []
        return self._decode_fully(lull.upto, WorkClass.ASR)

    def on_voiced_before(self, samples: int) -> None:
        """So much of it was spoken before it was known to be one."""
        self._voiced_before += samples
        self._sounded_to = max(self._sounded_to, self.start + samples)

    def on_swell(self) -> None:
        self._quiet_from, self._quiet_s = None, 0.0

    def on_pause(self, at: int | None = None) -> list[TurnCommand]:
        """The pause's first silent frame begins at `at`; None where it is none and a commit is asked for. `text` is
        known at once where a decode ahead has heard all there was."""
        self.state = Speaking.PAUSE
        self.text, self._silence_s = None, 0.0
        self._silent_from = at
        self._paused_at = self._quiet_from if self._quiet_from is not None else at
        self._judging.on_pause()
        if self._last is not None and self._heard_all(self._last.upto, at):
            self.text = self._last.text
            return [Withdraw(work) for work in self._fulls]
        self._final = next((work for work, upto in self._fulls.items() if self._heard_all(upto, at)), None)
        if self._final is not None:
            return []
        commands = self._decode_fully(self._decoded_to if at is None else at, WorkClass.STARTED)
        self._final = next(reversed(self._fulls))
        return commands

    def on_resumed(self) -> list[TurnCommand]:
        self.state = Speaking.SPEECH
        self._final = self._quiet_from = None
        self._quiet_s = 0.0
        self._voiced_before += self._voiced
        self._voiced = 0
        return self._judging.stop()

    def on_quiet(self, quiet_s: float) -> None:
        self._quiet_s = quiet_s

    def on_silence(self, silence_s: float, completeness: float | None) -> None:
        self._silence_s = silence_s
        if completeness is not None:
            self._judging.score = completeness

    def judge(self, patience: Patience) -> list[TurnCommand]:
        """Ask the turn model where its answer can still change how long this pause is waited out."""
        if not self.text or self.state is Speaking.SPEECH or self.commit_asked:
            return []
        if not self._judging.is_due(self._silence_s, self.speech_samples / RATE_HZ):
            return []
        by_words_s = needed_silence_s(self.text, None, patience)
        left_s = needed_silence_s(self.text, self._judging.score, patience) - self._silence_s
        if not is_worth_asking(by_words_s, left_s, patience):
            return []
        return self._judging.ask(self._silence_s)

    def on_score(self, work: Work, score: float) -> bool:
        """Is it about the present pause?"""
        return self._judging.on_score(work, score)

    def on_decided(self) -> list[TurnCommand]:
        """The turn is committed, or has ended: nothing is to be judged any more."""
        return self._judging.stop()

    def on_transcript(self, work: Work, stable: str, tentative: str, upto: int) -> Partial | Ahead | Final | None:
        """What there is to tell; None for a repetition and for what is out of date. `upto`: what was said up to
        there is in it; 0 where that is not known."""
        self._expected.pop(work, None)
        if work == self._partial:
            self._partial = None
        full = self._fulls.pop(work, None) is not None
        text = f"{stable} {tentative}".strip()
        if work == self._final:
            self._final = None
            self.text = text
            return Final(text)
        may_be_all = full or sounds_finished(text)  # words that ask for more leave time to hear them in full
        if text and may_be_all:
            self._last = _Heard(text, upto)
        if self.state is not Speaking.SPEECH:
            if self._final is None or not (text and may_be_all and self._heard_all(upto, self._silent_from)):
                return None
            self._final, self.text = None, text
            return Final(text, tuple(self._fulls))
        if full:
            # Without words so little had been heard that the next decode may well bring something.
            return Ahead(text) if text else None
        if text and may_be_all and self._heard_all(upto, None):
            return Ahead(text, tuple(self._fulls))
        return self.show(stable, tentative)

    def on_expected(self, work: Work, service_s: float, now: float, *, running: bool) -> bool:
        """A decode was handed to the device just now, or begins to run, and is expected to take so long. Is it the
        one that the pause waits for?"""
        if work != self._partial and work not in self._fulls:
            return False
        self._expected[work] = _Expected(service_s, now if running else None)
        return work == self._final

    def on_lost(self, work: Work) -> bool:
        """This decode will bring nothing. Was it the final that counts?"""
        self._expected.pop(work, None)
        if work == self._partial:
            self._partial = None  # the next one, or the final, will do
        self._fulls.pop(work, None)
        self._judging.on_lost(work)
        if work != self._final:
            return False
        self._final = None
        return True

    def decode_again(self) -> list[TurnCommand]:
        """The decode that counts has failed: once more."""
        at = self._silent_from
        commands = self._decode_fully(self._decoded_to if at is None else at, WorkClass.STARTED)
        self._final = next(reversed(self._fulls))
        return commands

    def show(self, stable: str, tentative: str) -> Partial | None:
        """What is to be told of it: stable words stay as they were told first."""
        kept = self._shown.stable
        if not stable.startswith(kept):
            words = f"{stable} {tentative}".split()[len(kept.split()) :]
            stable, tentative = kept, " ".join(words)
        partial = Partial(stable, tentative)
        if partial == self._shown:
            return None
        self._shown = partial
        return partial

    # inner

    def _decode_fully(self, upto: int, klass: WorkClass) -> list[TurnCommand]:
        """Decodes that wait meanwhile are not needed; one that runs already goes on."""
        waiting = [Withdraw(work) for work in (self._partial, *self._fulls) if work is not None]
        work = self._make_work(WorkKind.FINAL, klass)
        self._fulls[work] = upto
        self._decoded_to = max(self._decoded_to, upto)
        return [*waiting, Submit(work)]

    def _heard_all(self, upto: int, at: int | None) -> bool:
        """Has a decode up to there heard what was said before the pause that begins with the silent frame `at`?"""
        if self._quiet_from is None or upto < self._quiet_from - self._settings.tail_s * RATE_HZ:
            return False
        # From `quiet_from` on there was nothing to be heard, as long as the detector was only late to say so.
        heard_to = max(upto, self._quiet_from)
        return at is None or heard_to >= at - self._settings.unheard_s * RATE_HZ

    # questions

    @property
    def awaiting_final(self) -> bool:
        return self._final is not None

    def final_left_s(self, now: float) -> float | None:
        """Expected service until the pause's text is known: of its decode, and of one that is at work before it.
        None where no decode is awaited or nothing is known of it."""
        if self._final is None or self._final not in self._expected:
            return None
        ahead = [one for work, one in self._expected.items() if work != self._final and one.began is not None]
        return sum(one.left_s(now) for one in (*ahead, self._expected[self._final]))

    @property
    def upto(self) -> int:
        """Up to where there is speech, as far as is known."""
        return max(self._decoded_to, self._sounded_to)

    def pause_s(self, until: int) -> float:
        """How long the pause lasted in which speech begins again at sample `until`."""
        return 0.0 if self._paused_at is None else max(0, until - self._paused_at) / RATE_HZ

    @property
    def ended_samples(self) -> int:
        """Of speech, without a stretch that goes on."""
        return self.speech_samples if self.state is Speaking.PAUSE else self._voiced_before

    @property
    def speech_samples(self) -> int:
        return self._voiced_before + self._voiced

    def is_over(self, patience: Patience | None) -> bool:
        """Is the text known, and the silence enough for it? Without `patience`, only a demand ends a turn."""
        if self.text is None or self.state is Speaking.SPEECH:
            return False
        if self.commit_asked:
            return True
        if patience is None:
            return False
        if not self.text:  # nothing to be complete or not: as long as for an undecided score
            return self._silence_s >= patience.silence_s(UNDECIDED)
        score = self._judging.score
        if is_quiet_enough(self._quiet_s, self.text, score, patience):
            return True
        return self._silence_s >= needed_silence_s(self.text, score, patience)
