"""How many turns of a session have failed in a row, and when that is enough.

One whose turns all fail holds a lease that another session could use, and its caller talks to nobody. A turn that
was answered begins the count anew; one that was interrupted, refused or empty tells nothing about the engines.
"""

from __future__ import annotations

from voicepipe.core.events import Verdict

ANSWERED = frozenset({Verdict.MET, Verdict.DEGRADED, Verdict.MASKED, Verdict.MISSED})


class Streak:
    def __init__(self, longest: int) -> None:
        """`longest`: failed turns in a row after which it is over; 0 is never."""
        self._longest = longest
        self._failed = 0

    def on_turn(self, verdict: Verdict) -> bool:
        """A turn has ended. Is it over?"""
        if verdict is Verdict.FAILED:
            self._failed += 1
        elif verdict in ANSWERED:
            self._failed = 0
        return 0 < self._longest <= self._failed
