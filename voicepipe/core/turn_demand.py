"""The demand test of turns: how long may one turn keep the device before another, that waits for it, is late?

By the earliest deadline first, a turn j that waits is in time iff all that is due no later fits before its
deadline:

    now + x + sum of what the turns up to j still need, j included  <=  d_j

with x what the turn that has the device still takes. The smallest x that some j allows is what can be spared. What
is late whatever x is does not count: it runs after those that can be in time. Needs are expected service, up to the
first content; O(n log n) in the turns that wait, of which there are a handful.
"""

from __future__ import annotations

from collections.abc import Iterable

from voicepipe.core.events import Work
from voicepipe.core.waiting import to_go_s


def spare_s(waiting: Iterable[Work], now: float) -> float | None:
    """`waiting`: of started turns, each with a deadline. Seconds, not negative; None where none of them can be
    made late by anybody."""
    timed = [(work.deadline, to_go_s(work)) for work in waiting if work.deadline is not None]
    before_s, spare = 0.0, None
    for deadline, left_s in sorted(timed):
        slack_s = deadline - now - before_s - left_s
        if slack_s < 0.0:
            continue
        before_s += left_s
        spare = slack_s if spare is None else min(spare, slack_s)
    return spare
