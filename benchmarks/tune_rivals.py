"""What the rivals of `voicepipe.sim.arms` are given: slots and chunks, by a coarse grid, confirmed on other seeds.

The scene is one in which slots and memory bind: beside 1.2 times the callers that the device carries come texts of
4,000 tokens in and 1,500 out, and there is memory for 20,000 tokens, which three of them fill. First every
candidate is played with a few seeds; the two that are best, and what stands in `sim.arms` now, are then played with
others, and those decide. Best is the largest share of turns in time, and among what is within half a per cent of it
the most written tokens of texts; of equals the first. No seed here is reported by an experiment.

What has been played is kept in a file, one line a run, and is not played again: the next call goes on where this
one was stopped.

    python benchmarks/tune_rivals.py --kept tuned.jsonl
    python benchmarks/tune_rivals.py --kept tuned.jsonl --minutes 8  # stops after so long
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean

from voicepipe.sim.arms import TUNED, arm
from voicepipe.sim.experiment import Setting
from voicepipe.sim.scene import TextJobs, play
from voicepipe.sim.shared import shared
from voicepipe.sim.slots import Rules
from voicepipe.sim.voice_scenes import ONE_X, calm_scene, measures

SEEDS, CONFIRMING = (9001, 9002), (9101, 9102, 9103, 9104)
LOAD, SECONDS = 1.2, 300.0
TEXTS = TextJobs(0.1, prompt_tokens=(4000, 4000), output_tokens=(1500, 1500))
POOL_TOKENS = 20_000
SLOTS, CHUNKS = (4, 8, 16), (128, 256, 512)
NEAR = 0.005
FINALISTS = 2


def candidates(name: str) -> Iterator[Rules]:
    rules = TUNED[name]
    for slots in SLOTS:
        for chunk in CHUNKS if rules.chunk_tokens is not None else (None,):
            yield replace(rules, slots=slots, chunk_tokens=chunk)


def played(name: str, rules: Rules, seed: int) -> tuple[float, float]:
    """(share of turns in time, tokens of texts written a second)"""
    scene = replace(calm_scene(seed, Setting(), LOAD * ONE_X, SECONDS), texts=TEXTS)
    tight = replace(rules, pool_tokens=POOL_TOKENS)
    found = measures(play(replace(arm(name, scene), machine=shared(tight))))
    return found["in_time"] or 0.0, found["written_tokens_s"] or 0.0


class Kept:
    """Runs, as far as the time goes; those of earlier calls included."""

    def __init__(self, path: Path, minutes: float, pool: ProcessPoolExecutor) -> None:
        self._path, self._pool = path, pool
        self._ends = time.monotonic() + 60.0 * minutes
        lines = path.read_text().splitlines() if path.exists() else []
        self._found: dict[str, list[float]] = {entry["of"]: entry["found"] for entry in map(json.loads, lines)}

    def of(self, name: str, candidates: Sequence[Rules], seeds: Sequence[int]) -> list[Row]:
        """Raises TimeoutError where no time is left."""
        wanted = {_key(name, rules, seed): (rules, seed) for rules in candidates for seed in seeds}
        missing = [key for key in wanted if key not in self._found]
        running = {key: self._pool.submit(played, name, *wanted[key]) for key in missing}
        for key, future in running.items():
            if time.monotonic() > self._ends:
                self._pool.shutdown(cancel_futures=True)
                raise TimeoutError
            self._found[key] = list(future.result())
            with self._path.open("a") as file:
                file.write(json.dumps({"of": key, "found": self._found[key]}) + "\n")
        rows = []
        for rules in candidates:
            runs = [self._found[_key(name, rules, seed)] for seed in seeds]
            rows.append((rules, mean(run[0] for run in runs), mean(run[1] for run in runs)))
        return rows


def _key(name: str, rules: Rules, seed: int) -> str:
    return json.dumps(
        {"arm": name, "rules": asdict(rules), "pool": POOL_TOKENS, "seed": seed, "texts": asdict(TEXTS)}
    )


Row = tuple[Rules, float, float]
"""Share of turns in time, and tokens of texts written a second."""


def ranked(rows: Sequence[Row]) -> list[Row]:
    most = max(in_time for _, in_time, _ in rows)
    return sorted(rows, key=lambda row: (row[1] < most - NEAR, -row[2] if row[1] >= most - NEAR else -row[1]))


def show(name: str, what: str, rows: Sequence[Row]) -> None:
    for rules, in_time, tokens_s in rows:
        chunk = rules.chunk_tokens or "whole"
        print(f"{name}  {what:<9}  slots {rules.slots:>2}  chunk {chunk:>5}  ", end="")
        print(f"in time {in_time:.4f}  texts {tokens_s:6.0f} tokens/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=Path, required=True, help="what has been played")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--arms", nargs="+", default=list(TUNED))
    args = parser.parse_args()
    best: dict[str, dict[str, object]] = {}
    pool = ProcessPoolExecutor()
    kept = Kept(args.kept, args.minutes, pool)
    try:
        for name in args.arms:
            grid = kept.of(name, list(candidates(name)), SEEDS)
            show(name, "grid", grid)
            finalists = [rules for rules, _, _ in ranked(grid)[:FINALISTS]]
            if TUNED[name] not in finalists:
                finalists.append(TUNED[name])
            confirmed = ranked(kept.of(name, finalists, CONFIRMING))
            show(name, "confirmed", confirmed)
            rules, in_time, tokens_s = confirmed[0]
            best[name] = {
                "slots": rules.slots,
                "chunk": rules.chunk_tokens,
                "in_time": in_time,
                "tokens_s": tokens_s,
            }
    except TimeoutError:
        print("the time is over: the next call goes on from here")
    finally:
        pool.shutdown(cancel_futures=True)
    print(json.dumps({"summary": {"best": best}}))


if __name__ == "__main__":
    main()
