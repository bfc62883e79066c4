"""What is given up for a turn that will be late, and by whom: the rungs that lie around its reply.

The first rung, a shorter first clause, is the reply's own (`core.reply`). Here are the others: no second pass over
what was said, a smaller model, an acknowledgement at the deadline, or at a later commit. Each is taken only where
the turn is expected to be late, and noted in its ledger when it is taken; the settings switch each of them off.
Below them is the refusal: where the deadline is enforced, a turn that has come to it with nothing is not answered.
"""

from __future__ import annotations

from collections.abc import Iterator

from voicepipe.core.acknowledge import Acknowledger
from voicepipe.core.events import Rung, TurnCommand
from voicepipe.core.second_pass import SecondPasses
from voicepipe.core.turn_state import Phase, Turn, TurnSettings
from voicepipe.core.utterance import Span, Speaking

HAND_OVER_S = 0.001
"""From the decision that content is heard to its first sample at the socket: 0.2 to 1.2 ms, measured. Content that
is ready within the last of it before a deadline would still be late."""


def content_in_s(turn: Turn, now: float) -> float:
    """When the turn's first content is expected, from now: by what the steps to it usually take."""
    if turn.reply is not None:
        return turn.reply.content_in_s(now)
    return turn.outlook.clause_s + turn.outlook.audio_s


def is_late(turn: Turn, now: float) -> bool:
    """Will its content miss the deadline, as things stand? No deadline runs before the speech has ended."""
    deadline = turn.ledger.deadline
    return deadline is not None and now + content_in_s(turn, now) > deadline


class Ladder:
    def __init__(self, session: str, settings: TurnSettings, serial: Iterator[int]) -> None:
        self.second_passes = SecondPasses(session, serial)
        self._settings = settings
        self._acknowledger = Acknowledger(settings.acknowledge)
        self._filled = 0
        """Fillers given so far."""

    def on_settings(self, settings: TurnSettings) -> None:
        """Others hold from now on. What has been heard of acknowledgements stays known."""
        self._settings = settings

    def wants_small_model(self, turn: Turn, now: float) -> bool:
        """Whether the reply that begins now is left to the smaller model. While the user speaks no deadline runs,
        be there one of an earlier pause."""
        over = turn.phase is Phase.COMMITTED or turn.utterance.state is Speaking.PAUSE
        return self._settings.may_shrink and over and is_late(turn, now)

    def hear_again(self, turn: Turn, epoch: int, now: float) -> list[TurnCommand]:
        """Ask for a second pass over what `epoch` has committed, unless the turn is late as it is."""
        if not self._settings.second_pass or turn.typed or turn.said is None:
            return []
        if self._settings.may_skip_pass and turn.reply is not None and is_late(turn, now):
            turn.ledger.on_rung(Rung.NO_SECOND_PASS)
            return []
        heard = turn.utterance
        span = Span(turn.number, heard.start, heard.speech_samples)
        return self.second_passes.begin(span, heard.upto, turn.said, epoch)

    def acknowledge_at(self, turn: Turn, epoch: int) -> float | None:
        """When to decide whether this turn is acknowledged. Not where the user did not speak, or has been cut off
        in this turn already: who pauses in mid-sentence is not to be told "mm-hm" twice."""
        reply = turn.reply
        if turn.phase is not Phase.COMMITTED or reply is None or turn.typed or turn.reopened:
            return None
        if reply.playout.has_content or reply.made or not reply.spoken:
            return None
        return self._acknowledger.due_at(turn.number, epoch, turn.ledger.masks_until)

    def acknowledge(self, turn: Turn, epoch: int, now: float, *, user_sounds: bool) -> list[TurnCommand]:
        """What is due at `acknowledge_at`. `user_sounds`: the user may have gone on, and is not talked over."""
        at, reply, until = self.acknowledge_at(turn, epoch), turn.reply, turn.ledger.masks_until
        if at is None or now < at:
            return []
        assert reply is not None and until is not None
        expected_s = 0.0 if user_sounds else content_in_s(turn, now)
        sound = self._acknowledger.decide(turn.number, epoch, until, expected_s, now)
        if sound is None:
            return []
        turn.ledger.on_rung(Rung.ACKNOWLEDGE)
        return reply.acknowledge(sound, now)

    def fill(self, turn: Turn, now: float, *, user_sounds: bool) -> list[TurnCommand]:
        """All there is of the reply is the call of a tool, which has been told: something to listen to meanwhile,
        where the answer cannot be in time even if the tool takes none. One that the user has typed, or that
        follows from another tool, has no deadline."""
        reply, deadline, outlook = turn.reply, turn.ledger.deadline, turn.outlook
        assert reply is not None
        late = deadline is not None and now + outlook.clause_s + outlook.audio_s > deadline
        fillers = () if user_sounds or turn.typed or turn.reopened or not late else self._settings.fillers
        if not fillers:
            return reply.fill(None, now)
        sound = fillers[self._filled % len(fillers)]
        self._filled += 1
        turn.ledger.on_rung(Rung.FILLER)
        return reply.fill(sound, now)

    def refuse_at(self, turn: Turn) -> float | None:
        """When this turn is refused: where deadlines are enforced, as soon as content that came now would be late,
        unless it is on its way already or the turn was acknowledged."""
        reply = turn.reply
        if not self._settings.enforce or turn.phase is not Phase.COMMITTED or reply is None or reply.on_its_way:
            return None
        deadline = turn.ledger.deadline
        return None if reply.playout.acknowledged or deadline is None else deadline - HAND_OVER_S

    def is_refused(self, turn: Turn, now: float) -> bool:
        at = self.refuse_at(turn)
        return at is not None and now >= at
