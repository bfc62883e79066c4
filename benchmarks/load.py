"""What policies of admission make of load: an open loop of whole sessions, from half of what fits to thrice.

Arrivals do not wait for replies, and every question has its intended instant; a refused session, a turn that was
refused, masked or failed, and a question that ran into the turn before it all count. 1x is the load, in sessions
that would be under way if all were let in, at which the policy `none` first misses 1 % of turns, by bisection.

The sweep runs in virtual time (`crowd.py`): the server's own sessions, scheduler and admission on scripted engines,
whose chunks take what they state. How long a refusal takes is measured apart, in real time over real sockets on a
server that is full (`door.py`), once per policy, and stands at each of its points that refused somebody.

    python benchmarks/load.py                           # none and deadline, 0.5 to 3x
    python benchmarks/load.py --full --plot load.svg    # all seven policies
    python benchmarks/load.py --turns 500               # a quick look; 1 % of 500 is five turns

met_rate is (met + degraded) / (turns of admitted sessions - interrupted before content - empty), goodput the former
per second. `false_admits`: admitted sessions with a late turn. `could_have_served`: of refused sessions drawn by
chance, played again with one of them let in beside those that had been: it was in time itself, and made none late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # the virtual loop is the tests'

from arrivals import Call, Habits, arrivals
from crowd import Played, play
from curve import Series, write_svg
from door import refusals_ms

from voicepipe.config import Config, parse_config

POLICIES = ("none", "deadline")
ALL = ("none", "count", "token-bucket", "aimd", "gradient", "vegas", "deadline")
OFFERED = (0.5, 1.0, 2.0, 3.0)
HABITS = Habits()
WARM_S = 60.0
"""Two sessions' length, not counted."""
SEEDS = (101, 102, 103)
KNOCKS = 300
MOST_SESSIONS = 256
_TURN_S = HABITS.session_s / HABITS.turns


@dataclass(frozen=True, slots=True)
class Job:
    policy: str
    offered: float
    sessions: float
    seconds: float
    seed: int
    cap: int

    def config(self) -> Config:
        return config_of(self.policy, self.cap if self.policy == "count" else MOST_SESSIONS)

    def calls(self) -> list[Call]:
        return arrivals(self.sessions, WARM_S + self.seconds, HABITS, self.seed)


def config_of(policy: str, most: int) -> Config:
    return parse_config(
        {
            "port": 0,
            "engines": {"kind": "scripted", "scripted": {"reply": "This is a scripted reply."}},
            "admission": {"policy": policy},
            "limits": {"max_sessions": most, "max_connections_per_address": 512, "max_connections": 512},
        }
    )


def run(job: Job) -> Played:
    return play(job.config(), job.calls(), WARM_S, WARM_S + job.seconds)


def could_have_served(job: Job, played: Played, number: int) -> bool:
    """Would the refused call have been in time, and nobody else late for it? Everybody else as it was."""
    calls = job.calls()
    wanted = calls[number]
    held = {asked.call for asked in played.asked if not asked.refused}
    near = [
        n for n in sorted({*held, number}) if calls[n].end > wanted.at - WARM_S / 2 and calls[n].at < wanted.end
    ]
    begin = max(0.0, wanted.at - WARM_S / 2)
    moved = {n: _earlier(calls[n], begin) for n in near if calls[n].at >= begin}
    late = []
    for more in (True, False):
        some = [call for n, call in moved.items() if more or n != number]
        result = play(config_of("none", MOST_SESSIONS), some, wanted.at - begin, wanted.end - begin + 1.0)
        late.append(sum(asked.counts and not asked.kept for asked in result.asked))
    return late[0] <= late[1]


def _earlier(call: Call, seconds: float) -> Call:
    questions = tuple(type(q)(q.begin - seconds, q.end - seconds) for q in call.questions)
    return Call(call.at - seconds, call.end - seconds, questions)


def met_rate(played: Iterable[Played]) -> float:
    counted = [asked for one in played for asked in one.asked if asked.counts]
    return sum(asked.kept for asked in counted) / max(1, len(counted))


def find_one(pool: ProcessPoolExecutor, turns: int, note: TextNote) -> float:
    """The load at which `none` first misses 1 %, to a twelfth."""
    least, most = 2.0, 32.0
    while most / least > 1.09:
        middle = (least * most) ** 0.5
        jobs = [Job("none", 1.0, middle, turns * _TURN_S / middle / 2, seed, MOST_SESSIONS) for seed in (11, 12)]
        rate = met_rate(pool.map(run, jobs))
        note(f"none, {middle:.1f} sessions: {rate:.4f} of turns met")
        least, most = (middle, most) if rate >= 0.99 else (least, middle)
    return least


class TextNote:
    def __call__(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def percentile(values: Sequence[float], q: float) -> float | None:
    """Of all of them; None where there are none, and where it is infinite."""
    if not values:
        return None
    value = sorted(values)[min(len(values) - 1, ceil(q * len(values)) - 1)]
    return round(value, 1) if isfinite(value) else None


def point(policy: str, offered: float, jobs: Sequence[Job], played: Sequence[Played]) -> dict[str, object]:
    counted = [asked for one in played for asked in one.asked if asked.counts]
    kept = sum(asked.kept for asked in counted)
    seconds = sum(job.seconds for job in jobs)
    verdicts = [asked.record.verdict.value for asked in counted if asked.record is not None]
    refused = sum(sum(one.refused.values()) for one in played)
    admitted = sum(one.admitted for one in played)
    late = {
        (n, asked.call) for n, one in enumerate(played) for asked in one.asked if asked.counts and not asked.kept
    }
    return {
        "policy": policy,
        "offered": offered,
        "admitted": admitted,
        "met_rate": round(kept / max(1, len(counted)), 4),
        "goodput": round(kept / seconds, 3),
        "refused": refused,
        "refused_rate": round(refused / max(1, refused + admitted), 4),
        "masked": verdicts.count("masked"),
        "refusal_p99_ms": None,
        "felt_p99_ms": percentile([1000 * asked.met_by for asked in counted], 0.99),
        "turns": len(counted),
        "most_sessions": max(one.most for one in played),
        "false_admits": round(len(late) / max(1, admitted), 4),
    }


def rejects(pool: ProcessPoolExecutor, done: Sequence[tuple[Job, Played]], samples: int) -> dict[str, int]:
    """Of refused sessions drawn by chance, how many could have been served."""
    found: list[tuple[Job, Played, int]] = []
    for job, played in done:
        numbers = sorted({asked.call for asked in played.asked if asked.refused})
        found += [(job, played, number) for number in numbers]
    drawn = random.Random(1).sample(found, min(samples, len(found)))
    served = sum(pool.map(could_have_served, *zip(*drawn, strict=True))) if drawn else 0
    return {"sampled": len(drawn), "could_have_served": served}


def sweep(args: argparse.Namespace, note: TextNote) -> dict[str, object]:
    policies = ALL if args.full else POLICIES
    door = {}
    for policy in policies:
        took = asyncio.run(refusals_ms(config_of(policy, 16 if policy == "count" else MOST_SESSIONS), args.knocks))
        door[policy] = percentile(took, 0.99)
        note(f"{policy}: {len(took)} of {args.knocks} knocks refused, p99 {door[policy]} ms")
    with ProcessPoolExecutor(2) as pool:
        one = args.one or find_one(pool, args.turns, note)
        points, of_deadline = [], []
        for policy in policies:
            for offered in OFFERED:
                seconds = args.turns * _TURN_S / (one * min(offered, 1.25)) / len(SEEDS)
                jobs = [Job(policy, offered, one * offered, seconds, seed, round(one)) for seed in SEEDS]
                played = list(pool.map(run, jobs))
                points.append(point(policy, offered, jobs, played))
                if points[-1]["refused"]:
                    points[-1]["refusal_p99_ms"] = door[policy]
                if policy == "deadline":
                    of_deadline += list(zip(jobs, played, strict=True))
                note(json.dumps(points[-1]))
        wrong = rejects(pool, of_deadline, args.rejects)
    return {
        "one_sessions": round(one, 2),
        "engines": "scripted",
        "sweep": "virtual time",
        "refusals": "real time, loopback sockets, client and server on one loop",
        "seeds": list(SEEDS),
        "false_rejects": wrong,
        "points": points,
    }


def table(points: Sequence[dict[str, object]]) -> str:
    heads = ("policy", "offered", "turns", "admitted", "refused", "met_rate", "goodput", "masked", "felt_p99_ms")
    heads += ("refusal_p99_ms", "false_admits")
    rows = [heads, *([str(one[head]) for head in heads] for one in points)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def draw(path: Path, points: Sequence[dict[str, object]]) -> None:
    series = []
    for policy in dict.fromkeys(one["policy"] for one in points):
        own = [one for one in points if one["policy"] == policy]
        places = tuple((float(str(one["offered"])), float(str(one["goodput"])), "") for one in own)
        series.append(Series(str(policy), places, line=True))
    write_svg(
        path, series, "Turns in time under load", "offered load (1: none misses 1 %)", "turns in time per second"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all seven policies")
    parser.add_argument("--turns", type=int, default=2000, help="per point, over all seeds")
    parser.add_argument("--one", type=float, help="sessions at 1x, instead of looking for it")
    parser.add_argument("--knocks", type=int, default=KNOCKS, help="at the door of each policy")
    parser.add_argument("--rejects", type=int, default=8, help="refused sessions that are played again")
    parser.add_argument("--plot", type=Path, metavar="F", help="draw goodput over load, as SVG")
    args = parser.parse_args()
    summary = sweep(args, TextNote())
    print(table(summary["points"]))  # type: ignore[arg-type]
    if args.plot is not None:
        draw(args.plot, summary["points"])  # type: ignore[arg-type]
    print(json.dumps({"summary": summary}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
