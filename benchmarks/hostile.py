"""What one hostile client costs the good ones beside it: their system gap alone, and beside it, in one run.

Eight good clients talk all the time, at instants that do not coincide. Windows of time alternate: alone, beside,
beside, alone; the hostile client is a process of its own, the server is another one, and the good clients are a
third, so that what moves is the server. The machine's own noise falls on both kinds of windows alike. A kind holds
where p99 and median of its windows lie less than 20 % above those of the windows around them, or less than a
millisecond, which is what timers are good for.

    python benchmarks/hostile.py                             # every kind, 2 x 10 s each side: 9 minutes
    python benchmarks/hostile.py --kinds pings --rounds 6    # one of them, closely
    python benchmarks/hostile.py --full                      # 6 rounds of 10 s: half an hour

Three processes want a core each; on two, what a hostile client costs as a program is a part of the figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from hostiles import KINDS
from served import Server, total
from talkers import Heard, talk_for_ever

GOOD = 8
CYCLE_S, SPEECH_S = 2.0, 0.5
SETTLE_S = 1.0
"""At the begin of a window, which is not counted."""
MOVES = 0.2
FLOOR_MS = 1.0
RESAMPLED = 1_000
CONFIG = """
budget_ms = 200
[engines]
kind = "scripted"
[engines.scripted]
reply = "Yes."
asr_ms = 5
llm_prefill_ms = 5
llm_token_ms = 2
tts_ms = 5
[limits]
max_sessions = 16
[admission]
policy = "count"
"""


@dataclass(slots=True)
class Side:
    """The windows of one side, of one kind."""

    gaps_ms: list[float] = field(default_factory=list)
    committed: int = 0
    unanswered: int = 0
    cpu: list[float] = field(default_factory=list)
    """Of the server, as a share of a core."""


async def hostile_process(kind: str, port: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__).with_name("hostiles.py")), kind, str(port)
    )


async def window(server: Server, good: Sequence[Heard], seconds: float, side: Side) -> None:
    clock = asyncio.get_running_loop().time
    await asyncio.sleep(SETTLE_S)
    begin, cpu = clock(), server.cpu_s()
    await asyncio.sleep(seconds)
    end = clock()
    side.cpu.append((server.cpu_s() - cpu) / (end - begin))
    await asyncio.sleep(CYCLE_S)  # for the turns of the window to end; a hostile client goes on meanwhile
    for heard in good:
        for turn, at in heard.committed.items():
            if begin <= at < end:
                side.committed += 1
                record = heard.ended.get(turn, [{}])[0]
                gap_ms = record.get("system_ms")
                if gap_ms is None:
                    side.unanswered += 1
                else:
                    side.gaps_ms.append(gap_ms)


async def measure(server: Server, good: Sequence[Heard], kind: str, rounds: int, seconds: float) -> dict[str, Any]:
    alone, beside = Side(), Side()
    for number in range(rounds):
        for side in (alone, beside) if number % 2 == 0 else (beside, alone):
            if side is alone:
                await window(server, good, seconds, alone)
                continue
            process = await hostile_process(kind, server.port)
            try:
                await window(server, good, seconds, beside)
                if process.returncode is not None:
                    raise SystemExit(f"the hostile client {kind} ended by itself: {process.returncode}")
            finally:
                if process.returncode is None:
                    process.send_signal(signal.SIGKILL)
                await process.wait()
    return row(kind, alone, beside)


def row(kind: str, alone: Side, beside: Side) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": kind, "n_alone": len(alone.gaps_ms), "n_beside": len(beside.gaps_ms)}
    holds = not beside.unanswered and bool(alone.gaps_ms) and bool(beside.gaps_ms)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        before, after = quantile(alone.gaps_ms, share), quantile(beside.gaps_ms, share)
        found[f"{name}_alone_ms"], found[f"{name}_beside_ms"] = before, after
        found[f"{name}_moved"] = None if before is None or after is None else round(after / before - 1, 3)
        if before is not None and after is not None:
            holds &= after - before <= max(MOVES * before, FLOOR_MS)
    found["p99_moved_interval"] = interval(alone.gaps_ms, beside.gaps_ms)
    found["unanswered"] = beside.unanswered + alone.unanswered
    found["cpu_alone"], found["cpu_beside"] = (
        round(sum(s.cpu) / len(s.cpu), 2) if s.cpu else None for s in (alone, beside)
    )
    found["holds"] = holds
    return found


def quantile(values: Sequence[float], share: float) -> float | None:
    """The nearest one that is not below the share."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)


def interval(alone: Sequence[float], beside: Sequence[float], seed: int = 1) -> list[float] | None:
    """By how much the p99 moved: 90 % of what resampled turns come to."""
    if not alone or not beside:
        return None
    draw, moved = random.Random(seed), []
    for _ in range(RESAMPLED):
        before, after = (quantile(draw.choices(side, k=len(side)), 0.99) for side in (alone, beside))
        assert before is not None and after is not None
        moved.append(after / before - 1)
    moved.sort()
    return [round(moved[RESAMPLED // 20], 3), round(moved[-RESAMPLED // 20], 3)]


async def run(args: argparse.Namespace) -> dict[str, Any]:
    async with Server(CONFIG) as server:
        good = [Heard() for _ in range(GOOD)]
        rows = []
        async with asyncio.TaskGroup() as group:
            talking = [
                group.create_task(
                    talk_for_ever(server.url, heard, phase_s=n * CYCLE_S / GOOD, cycle_s=CYCLE_S, speech_s=SPEECH_S)
                )
                for n, heard in enumerate(good)
            ]
            await asyncio.sleep(2 * CYCLE_S)
            for kind in args.kinds:
                rows.append(await measure(server, good, kind, args.rounds, args.seconds))
                print(line(rows[-1]), file=sys.stderr, flush=True)
            for task in talking:
                task.cancel()
        await asyncio.sleep(1.0)
        leases = total(await server.metrics(), "voicepipe_leases")
        status = await server.end()
    return {
        "good": GOOD,
        "window_s": args.seconds,
        "rounds": args.rounds,
        "kinds": rows,
        "good_errors": sorted({code for heard in good for code in heard.errors}),
        "good_closed": sorted({heard.closed for heard in good if heard.closed not in (None, 1000, 1005, 1006)}),
        "leases_after": leases,
        "exit_status": status,
        "holds": all(found["holds"] for found in rows) and status == 0 and leases == 0,
    }


HEADINGS = (
    f"{'kind':<15}{'n':>5}{'n':>5}{'p50 ms':>9}{'beside':>8}{'moved':>8}"
    f"{'p99 ms':>9}{'beside':>8}{'moved':>8}{'cpu':>6}{'cpu':>6}"
)


def line(found: dict[str, Any]) -> str:
    cells = f"{found['kind']:<15}{found['n_alone']:>5}{found['n_beside']:>5}"
    for name in ("p50", "p99"):
        before, after, moved = (found[f"{name}_{part}"] for part in ("alone_ms", "beside_ms", "moved"))
        cells += f"{before!s:>9}{after!s:>8}" + (f"{100 * moved:>7.0f}%" if moved is not None else f"{'':>8}")
    return cells + f"{found['cpu_alone']!s:>6}{found['cpu_beside']!s:>6}  " + ("holds" if found["holds"] else "NOT")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", type=lambda text: tuple(text.split(",")), default=tuple(KINDS))
    parser.add_argument("--rounds", type=int, default=0, help="windows of each side of a kind (default: 2)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a window that are counted (default: 8)")
    parser.add_argument("--full", action="store_true", help="6 rounds of 10 s")
    args = parser.parse_args(argv)
    args.rounds = args.rounds or (6 if args.full else 2)
    args.seconds = 10.0 if args.full else args.seconds
    if not set(args.kinds) <= set(KINDS):
        parser.error(f"--kinds are some of {', '.join(KINDS)}")
    return args


def main() -> None:
    summary = asyncio.run(run(arguments()))
    print(HEADINGS)
    for found in summary["kinds"]:
        print(line(found))
    print(json.dumps({"summary": summary}))
    sys.exit(0 if summary["holds"] else 1)


if __name__ == "__main__":
    main()
