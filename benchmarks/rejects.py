"""False rejects: refused callers that could have been served, found by playing them again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from arrivals import Call
from caller import Played
from crowd import play
from jobs import MOST_SESSIONS, WARM_S, Job, config_of


def could_have_served(job: Job, played: Played, number: int) -> bool:
    """Would the refused call have been in time, and nobody else late for it? Everybody else as it was."""
    calls = job.calls()
    wanted = calls[number]
    begin = max(0.0, wanted.at - WARM_S / 2)
    held = {asked.call for asked in played.asked if not asked.refused}
    near = [n for n in sorted({*held, number}) if begin <= calls[n].at < wanted.end]
    late = []
    for numbers in (near, [n for n in near if n != number]):
        some = [_earlier(calls[n], begin) for n in numbers]
        again = play(
            config_of("none", MOST_SESSIONS, device=job.device), some, wanted.at - begin, wanted.end - begin + 1.0
        )
        late.append(sum(asked.counts and not asked.kept for asked in again.asked))
    return late[0] <= late[1]


def _earlier(call: Call, seconds: float) -> Call:
    questions = tuple(replace(q, begin=q.begin - seconds, end=q.end - seconds) for q in call.questions)
    return Call(call.at - seconds, call.end - seconds, questions)


def false_rejects(pool: ProcessPoolExecutor, done: Sequence[tuple[Job, Played]], samples: int) -> dict[str, int]:
    """Of refused sessions drawn by chance, how many could have been served."""
    found = [
        (job, played, number)
        for job, played in done
        for number in sorted({asked.call for asked in played.asked if asked.refused})
    ]
    drawn = random.Random(1).sample(found, min(samples, len(found)))
    served = sum(pool.map(could_have_served, *zip(*drawn, strict=True))) if drawn else 0
    return {"refused": len(found), "sampled": len(drawn), "could_have_served": served}
