"""False rejects: refused callers that could have been served, found by playing them again."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from arrivals import Call
from caller import Played
from crowd import play
from jobs import MOST_SESSIONS, Job, config_of

from voicepipe.sim.counterfactual import Question, beside, fits


def could_have_served(job: Job, played: Played, number: int) -> bool:
    """Would the refused call have been in time, and nobody else late for it? Everybody else as it was."""
    calls = job.calls()
    held = {asked.call for asked in played.asked if not asked.refused}

    def late_of(numbers: Collection[int]) -> Collection[Question]:
        """On the real core, with everybody let in, as if the server had begun with the first of them."""
        if not numbers:
            return ()
        chosen = sorted(numbers)
        begin, end = min(calls[n].at for n in chosen), max(calls[n].end for n in chosen)
        some = [_earlier(calls[n], begin) for n in chosen]
        everybody = config_of("none", MOST_SESSIONS, device=job.device)
        again = play(everybody, some, 0.0, end - begin + 1.0)
        late = [asked for asked in again.asked if asked.counts and not asked.kept]
        return {(chosen[asked.call], round(asked.question.begin + begin, 6)) for asked in late}

    return fits(late_of, beside(calls, held, number), number)


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
