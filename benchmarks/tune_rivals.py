"""What the rivals of `voicepipe.sim.arms` are given: slots and chunks, by a grid, on seeds that nothing reports.

Each rival is played at the load and with the texts of the experiment `goodput`, for every pair of slots and tokens
that a step may read. Best is the largest share of turns in time, and among what is within half a per cent of it the
most tokens of texts; of equals the first.

    python benchmarks/tune_rivals.py            # one seed, ten simulated minutes: some minutes
    python benchmarks/tune_rivals.py --full     # five seeds, an hour each
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace

from voicepipe.sim.arms import TUNED, arm
from voicepipe.sim.experiment import Setting
from voicepipe.sim.scene import TextJobs, play
from voicepipe.sim.shared import shared
from voicepipe.sim.slots import Rules
from voicepipe.sim.voice_scenes import ONE_X, calm_scene, measures

FIRST_SEED = 9001
TEXTS_HZ, LOAD = 0.1, 1.2
SLOTS, CHUNKS = (8, 16), (128, 256, 512, 1024)
NEAR = 0.005


def candidates(name: str) -> Iterator[Rules]:
    rules = TUNED[name]
    for slots in SLOTS:
        for chunk in CHUNKS if rules.chunk_tokens is not None else (None,):
            yield replace(rules, slots=slots, chunk_tokens=chunk)


def tried(name: str, rules: Rules, seeds: range, seconds: float) -> dict[str, object]:
    in_time = tokens_s = 0.0
    for seed in seeds:
        scene = replace(calm_scene(seed, Setting(), LOAD * ONE_X, seconds), texts=TextJobs(TEXTS_HZ))
        found = measures(play(replace(arm(name, scene), machine=shared(rules))))
        in_time += (found["in_time"] or 0.0) / len(seeds)
        tokens_s += (found["text_tokens_s"] or 0.0) / len(seeds)
    return {
        "arm": name,
        "slots": rules.slots,
        "chunk": rules.chunk_tokens,
        "in_time": in_time,
        "tokens_s": tokens_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    full = parser.parse_args().full
    seeds, seconds = range(FIRST_SEED, FIRST_SEED + (5 if full else 1)), 3600.0 if full else 600.0
    best = []
    for name in TUNED:
        rows = [tried(name, rules, seeds, seconds) for rules in candidates(name)]
        for row in rows:
            print(f"{name}  slots {row['slots']:>2}  chunk {row['chunk'] or 'whole':>5}  ", end="")
            print(f"in time {row['in_time']:.4f}  texts {row['tokens_s']:6.0f} tokens/s")
        most = max(float(str(row["in_time"])) for row in rows)
        near = [row for row in rows if float(str(row["in_time"])) >= most - NEAR]
        best.append(max(near, key=lambda row: float(str(row["tokens_s"]))))
    print(json.dumps({"summary": {"best": best}}))


if __name__ == "__main__":
    main()
