"""What a turn needs of the device from here on: by when its next chunk has to begin."""

from __future__ import annotations

from voicepipe.core.events import Way
from voicepipe.core.forecast import Outlook
from voicepipe.core.turn_state import Phase, Turn
from voicepipe.core.utterance import Speaking


def latest_start(turn: Turn, outlook: Outlook, now: float) -> float | None:
    """In scheduler time; None where no chunk is to be expected: the turn has ended, or all of the reply is made.
    `outlook`: what is typical on the device by now.

    While the user may go on, the turn may end at any moment: the earliest deadline that it can have is that of
    speech which ended with the last sound that was heard, so that this moves on with every frame. From the pause
    on the deadline stands, until the first content is ready; after that, another clause has to be made before
    playback, which can begin now at the earliest, has come to the end of what there is."""
    match turn.phase:
        case Phase.ENDED:
            return None
        case Phase.COMMITTED:
            return _of_reply(turn, outlook, now)
        case Phase.HEARING:
            return _of_hearing(turn, outlook, now)


def _of_reply(turn: Turn, outlook: Outlook, now: float) -> float | None:
    reply, deadline = turn.reply, turn.ledger.deadline
    if reply is None or reply.made:
        return None
    if not reply.spoken and reply.on_its_way:
        return None  # nothing runs dry
    if reply.playout.has_content:
        return now + reply.playout.ahead_s(now) - outlook.needed_s(Way())
    return now if deadline is None else deadline - outlook.needed_s(reply.way)


def _of_hearing(turn: Turn, outlook: Outlook, now: float) -> float:
    reply, deadline = turn.reply, turn.ledger.deadline
    if turn.utterance.state is Speaking.SPEECH or deadline is None:
        return turn.ledger.due(turn.voiced) - outlook.needed_s(Way(), final=True)
    if reply is not None and reply.way.has_audio:
        return turn.ledger.due(now) - outlook.needed_s(Way(), final=True)
    way = Way() if reply is None or turn.utterance.awaiting_final else reply.way
    return deadline - outlook.needed_s(way)
