"""Which late turn is acknowledged by a short sound at its deadline, and with which one.

A listener who says "mm-hm" has understood; one who says it every time is a nuisance. So one turn in `one_in`
gets it at most, never with the same sound twice in a row, and only where the content will not be there in a
moment. It is decided once per commit: just before the deadline, when most is known, or at the commit where that
comes later. Nothing is heard before it; and the user, who has waited for longer then, waits for less with a sound
than without one.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAD_S = 0.01
"""How long before it has to be at the socket a sound is given out: an event loop's timer and the way to the socket
are late by some milliseconds, and a sound that comes too late masks nothing."""


@dataclass(frozen=True, slots=True)
class AcknowledgeSettings:
    sounds: tuple[bytes, ...] = ()
    """PCM16LE mono at the session's output rate, all different; without any, no turn is acknowledged."""
    one_in: int = 3
    """At most one turn in so many."""
    spare_s: float = 0.04
    """Content expected within this is waited for: two sounds in a row would be worse."""


class Acknowledger:
    def __init__(self, settings: AcknowledgeSettings) -> None:
        self._settings = settings
        self._decided = 0
        """Newest epoch about which it has been decided."""
        self._last: int | None = None
        """The turn that was acknowledged last."""
        self._given = 0

    def due_at(self, turn: int, epoch: int, until: float | None) -> float | None:
        """When to decide about the turn that `epoch` has committed; None where that is over. `until`: when a sound
        must be at the socket to mask that the content is late (`Ledger.masks_until`)."""
        settings = self._settings
        if not settings.sounds or until is None or epoch <= self._decided:
            return None
        if self._last is not None and turn - self._last < settings.one_in:
            return None
        return until - LEAD_S

    def decide(self, turn: int, epoch: int, until: float, content_in_s: float, now: float) -> bytes | None:
        """The sound for this turn, if it is to have one. `content_in_s`: when its content is expected, from now."""
        settings = self._settings
        self._decided = epoch
        if now > until or content_in_s <= settings.spare_s:
            return None
        sound = settings.sounds[self._given % len(settings.sounds)]
        self._last = turn
        self._given += 1
        return sound
