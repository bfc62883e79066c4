"""What policies of admission make of load: an open loop of whole sessions, from half of what fits to thrice.

Arrivals do not wait for replies, and every question has its intended instant; a turn that was refused, masked or
failed, and a question that ran into the turn before it, all count. 1x is the load, in sessions that would be under
way if all were let in, at which the policy `none` first misses 1 % of turns, by bisection.

With scripted engines the sweep runs in virtual time (`crowd.py`): the server's own sessions, scheduler and
admission, and chunks that take what they state. One of its points is played again in real time over real sockets
(`street.py`) and stands beside it. How long a refusal takes is measured in real time as well, on a server that is
full (`door.py`), once per policy. With `--engines default` all of it is in real time, with synthesised questions.

    python benchmarks/load.py                                    # none and deadline, 0.5 to 3x
    python benchmarks/load.py --full --plot docs/load.svg        # all seven policies, more turns
    python benchmarks/load.py --device large --seeds 1           # a device for a hundred sessions
    python benchmarks/load.py --engines default --seconds 120    # real models: 10 minutes

met_rate is (met + degraded) / (turns of admitted sessions - interrupted before content - empty), goodput the former
per second. `false_admits`: turns of admitted sessions that were not in time. `false_rejects`: of refused sessions
drawn by chance, those that could have been served: the same calls played again, with that one let in beside those
that had been, and no more turns late than without it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # the virtual loop is the tests'

from caller import Played
from door import refusals_ms
from jobs import HABITS, MOST_SESSIONS, SPEEDS, Job, config_of, run, walk_job
from points import PROMISED, draw, met_rate, percentile, point, shown, table
from real_load import real_sweep
from rejects import false_rejects

POLICIES = ("none", "deadline")
ALL = ("none", "count", "token-bucket", "aimd", "gradient", "vegas", "deadline")
OFFERED, OFFERED_FULL = (0.5, 1.0, 2.0, 3.0), (0.5, 1.0, 1.5, 2.0, 3.0)
TURNS, TURNS_FULL = 300, 900
"""Per point, as far as they are admitted."""
FIRST_SEED, SEEDS = 101, 3
CHECK_S = 60.0
"""Of real time, beside the same calls in virtual time."""
LOOKED_AT = {"small": (4.0, 16.0), "large": (90.0, 220.0)}
"""Of each device, sessions between which 1x is looked for, and twice as closely as `STEP`."""
STEP = 1.08


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def find_one(pool: ProcessPoolExecutor, turns: int, seeds: Sequence[int], device: str) -> float:
    """The largest load that was tried at which `none` misses at most 1 %; the next one is less than `STEP` times as
    large."""
    turn_s = HABITS.session_s / HABITS.turns
    least, most = LOOKED_AT[device]
    while most / least > STEP:
        middle = (least * most) ** 0.5
        seconds = turns * turn_s / middle / len(seeds)
        jobs = [Job("none", 1.0, middle, seconds, seed, MOST_SESSIONS, device=device) for seed in seeds]
        rate = met_rate(pool.map(run, jobs))
        note(f"none, {middle:.1f} sessions: {rate:.4f} of turns met")
        least, most = (middle, most) if rate >= PROMISED else (least, middle)
    return least


def jobs_at(policy: str, offered: float, one: float, args: argparse.Namespace) -> list[Job]:
    """The same calls for every policy. Above 1x there are more of them than are served in time."""
    turn_s = HABITS.session_s / HABITS.turns
    seconds = args.turns * turn_s / (one * min(offered, 1.25)) / len(args.seeds)
    return [
        Job(policy, offered, one * offered, seconds, seed, round(one), args.enforcement, device=args.device)
        for seed in args.seeds
    ]


def sweep(args: argparse.Namespace) -> dict[str, Any]:
    with ProcessPoolExecutor(args.processes) as pool:
        one = args.one or find_one(pool, 2 * args.turns, args.seeds, args.device)
        points: list[dict[str, Any]] = []
        of_deadline: list[tuple[Job, Played]] = []
        asked = [(policy, offered) for policy in args.policies for offered in args.offered]
        begun = [[(job, pool.submit(run, job)) for job in jobs_at(*each, one, args)] for each in asked]
        for (policy, offered), runs in zip(asked, begun, strict=True):
            done = [(job, future.result()) for job, future in runs]
            points.append(point(policy, offered, [job.seconds for job, _ in done], [played for _, played in done]))
            note(json.dumps(points[-1]))
            if policy == "deadline":
                of_deadline += done
        wrong = false_rejects(pool, of_deadline, args.rejects)
    for policy in args.policies if args.knocks else ():
        took = asyncio.run(refusals_ms(config_of(policy, round(one)), args.knocks))
        note(f"{policy}: {len(took)} of {args.knocks} knocks refused, p99 {percentile(took, 0.99)} ms")
        for own in points:
            if own["policy"] == policy and own["refused"]:
                own["refusal_p99_ms"] = percentile(took, 0.99)
    return {
        "one_sessions": round(one, 2),
        "engines": "scripted",
        "device": args.device,
        "sweep": "virtual time",
        "enforcement": args.enforcement,
        "seeds": list(args.seeds),
        "false_rejects": wrong,
        "correction": [round(played.correction or 0.0, 2) for _, played in of_deadline],
        "check": check(one, args.check) if args.check and args.device == "small" else None,
        "shown": shown(points),
        "points": points,
    }


def check(one: float, seconds: float) -> list[dict[str, Any]]:
    """`deadline` at 1x, the same calls in virtual and in real time."""
    job = Job("deadline", 1.0, one, seconds, FIRST_SEED, round(one))
    sides = {"virtual": run(job), "real": walk_job(job)}
    fields = ("admitted", "refused", "turns", "met_rate", "goodput", "felt_p50_ms", "felt_p99_ms")
    rows = []
    for name, played in sides.items():
        row = point("deadline", 1.0, [job.seconds], [played])
        rows.append({"time": name, **{field: row[field] for field in fields}})
        note(json.dumps(rows[-1]))
    return rows


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all seven policies, more loads, turns and seeds")
    parser.add_argument("--policies", type=lambda text: tuple(text.split(",")), help="instead, by name")
    parser.add_argument(
        "--offered", type=lambda text: tuple(map(float, text.split(","))), help="loads, as multiples"
    )
    parser.add_argument("--turns", type=int, help=f"per point, over all seeds (default: {TURNS}, {TURNS_FULL})")
    parser.add_argument("--one", type=float, help="sessions at 1x, instead of looking for it")
    parser.add_argument("--engines", choices=("scripted", "default"), default="scripted")
    parser.add_argument(
        "--device",
        choices=tuple(SPEEDS),
        default="small",
        help="for scripted engines: one that carries a handful of sessions, where turns collide, or one four "
        "times as fast, which carries over a hundred until its time is used up (default: small)",
    )
    parser.add_argument(
        "--enforcement",
        choices=("degrade", "enforce", "observe"),
        default="degrade",
        help="enforce: a turn without content at its deadline is refused (scripted engines)",
    )
    parser.add_argument("--budget-ms", type=float, default=200.0, help="with default engines (default: 200 ms)")
    parser.add_argument("--seconds", type=float, default=60.0, help="per point with default engines (default: 60)")
    parser.add_argument("--knocks", type=int, default=300, help="at the door of each policy; 0: none")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many, from {FIRST_SEED} on")
    parser.add_argument("--rejects", type=int, help="refused sessions that are played again (default: 4, 24)")
    parser.add_argument("--check", type=float, default=CHECK_S, help="seconds of one point in real time; 0: none")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), help="of the sweep")
    parser.add_argument("--plot", type=Path, metavar="F", help="draw goodput over load, as SVG")
    args = parser.parse_args(argv)
    args.policies = args.policies or (ALL if args.full else POLICIES)
    args.turns = args.turns or (TURNS_FULL if args.full else TURNS)
    args.seeds = tuple(range(FIRST_SEED, FIRST_SEED + args.seeds))
    args.rejects = args.rejects or (24 if args.full else 4)
    args.offered = args.offered or (OFFERED_FULL if args.full else OFFERED)
    if not set(args.policies) <= set(ALL):
        parser.error(f"--policies are some of {', '.join(ALL)}")
    return args


def main() -> None:
    args = arguments()
    logging.basicConfig(level=logging.ERROR)  # refusals are counted here
    summary = sweep(args) if args.engines == "scripted" else real_sweep(args)
    print(table(summary["points"]))
    for name, (value, bound, held) in summary["shown"].items():
        print(f"{'holds' if held else 'NOT':>6}  {name}: {value} ({bound})")
    if args.plot is not None:
        draw(args.plot, summary["points"])
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
