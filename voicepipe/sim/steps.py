"""What the works of a simulated session mean, and how much they have to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voicepipe.core.endpoint import RATE_HZ
from voicepipe.core.events import Load, Rehear, Speak, Submit, Think, Work, WorkKind
from voicepipe.core.utterance import Span
from voicepipe.sim.caller import Utterance
from voicepipe.sim.draws import Draw
from voicepipe.sim.ears import Listener
from voicepipe.sim.house import House
from voicepipe.sim.recogniser import Heard
from voicepipe.sim.replies import REPLIES, Reply
from voicepipe.sim.slot import Generation, Slot
from voicepipe.sim.voice import Piece, Voice

ASR, SECOND = "recogniser", "second recogniser"


@dataclass(slots=True)
class Decode:
    """Sound that is heard: from a turn's beginning up to what has come when it runs."""

    start: int
    upto: int


class Steps:
    """Of one session, whose ears are `listener`."""

    def __init__(self, house: House, listener: Listener) -> None:
        self.said: list[Utterance] = []
        """What the caller has begun to say so far."""
        self._house = house
        self._listener = listener
        self._at_machine: dict[int, Decode | Generation | Piece] = {}
        self._slot = Slot(house.manner)
        self._voice = Voice(house.manner)
        self._generation: Generation | None = None
        self._decoded_turn = 0
        self.asked = 0
        """Number of the newest utterance, from 1."""
        self._turn = self._question = 0
        """The newest turn that has asked for anything, and which utterance was the newest then."""
        self._pieces: dict[tuple[WorkKind, str], int] = {}
        """Of that turn, how many there have been, by kind and variant; of a reply, since it was begun."""

    def say(self, number: int, said: Utterance) -> None:
        """The caller begins to; `number` counts from 0."""
        self.said.append(said)
        self.asked = number + 1

    def load(self, submit: Submit, span: Span | None, now: float) -> Load:
        """How much this work has to do; it is remembered until it has ended."""
        work, task = submit.work, submit.task
        if work.kind is WorkKind.SPEAK:
            if isinstance(task, Speak):
                self._voice.begin(task)
            self._at_machine[work.id], load = self._voice.next_piece()
            return load
        if work.kind in (WorkKind.WARM, WorkKind.THINK):
            if isinstance(task, Think):
                self._generation = self._slot.begin(task, self._reply_to(task))
            assert self._generation is not None
            self._at_machine[work.id] = self._generation
            return self._generation.size()
        if work.kind is WorkKind.SECOND_PASS:
            assert isinstance(task, Rehear)
            self._at_machine[work.id] = Decode(task.start, task.end)
            return Load(SECOND, (task.end - task.start) / RATE_HZ)
        assert span is not None and work.kind in (WorkKind.PARTIAL, WorkKind.FINAL), work.kind
        decode = self._at_machine[work.id] = Decode(span.start, self._listener.newest(now))
        seconds = min(max(0.0, (decode.upto - decode.start) / RATE_HZ), self._house.manner.window_s)
        again = work.kind is WorkKind.FINAL and self._decoded_turn == work.turn and self._house.manner.rechecks
        return Load(ASR, seconds, variant="recheck" if again else "")

    def draw(self, submit: Submit, load: Load) -> Draw:
        """The luck of this work, for which `load` has just been asked."""
        work, task = submit.work, submit.task
        if work.turn > self._turn:
            self._turn, self._question = work.turn, self.asked
            self._pieces.clear()
        if isinstance(task, Think) or (isinstance(task, Speak) and task.first):
            for kind, variant in [place for place in self._pieces if place[0] is work.kind]:
                del self._pieces[kind, variant]
        place = (work.kind, load.variant)
        number = self._pieces[place] = self._pieces.get(place, 0) + 1
        return self._house.draws.of(work.session, self._question, f"{work.kind.value} {load.variant} {number}")

    def begin(self, work: Work) -> None:
        """A decode hears what has come by the time at which it runs."""
        decode = self._at_machine[work.id]
        assert isinstance(decode, Decode)
        decode.upto = self._listener.newest(self._house.timeline.now)
        self._decoded_turn = work.turn

    def end(self, work: Work) -> Decode | Generation | Piece:
        """It has run, or will not any more."""
        return self._at_machine.pop(work.id)

    def hear(self, decode: Decode, *, full: bool) -> Heard:
        start, upto = map(self._listener.time_of, (decode.start, decode.upto))
        said = self._between(start, upto)
        return self._house.recogniser.hear(said, start, upto, full=full) if said else Heard("", "")

    def _between(self, start: float, upto: float) -> Sequence[Utterance]:
        return [said for said in self.said[-8:] if said.end > start and said.begin < upto]

    def _reply_to(self, task: Think) -> Reply:
        said = self.said[-1] if self.said else None
        text = task.lines[-1].text
        if said is None:
            return REPLIES[0]
        whole = bool(said.words) and text.endswith(f"{said.words[-1]}{said.mark}")
        return self._house.reply_to(text, said.reply, whole=whole)
