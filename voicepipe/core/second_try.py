"""What is asked of an engine once more when it has failed: once per turn, and only while nothing of the reply has
been told.

A call that crashed, or an endpoint that hung up, may well do it the second time, and a turn that is answered late
is worth more than one that is not. What took too long would take as long again; what is wrong with the question
stays wrong.
"""

from __future__ import annotations

from voicepipe.core.turn_state import Turn

CODES = frozenset({"engine_failed", "engine_unavailable"})
"""Of errors after which the same may be asked again."""


def takes_second_try(turn: Turn, code: str) -> bool:
    """May it be tried again? Then this was it."""
    if turn.tried_again or code not in CODES:
        return False
    if turn.reply is not None and not turn.reply.is_untold:
        return False
    turn.tried_again = True
    return True
