"""How fast the simulator is: every arm of the experiment `goodput`, in virtual time, on one core.

Regime: so many calls under way at a time if all are let in, one simulated hour, texts beside them, service times of
the preset `gpu`, partial transcripts every 320 ms of speech. On one such device a hundred calls are fourteen times
what it carries; with `--lanes 14` it serves them all, which is the most turns that there are to simulate. The
oracle plays the same calls a few times over. CPU seconds of this process, garbage collection included, profiling
off.

    python benchmarks/simulator_speed.py                       # all arms
    python benchmarks/simulator_speed.py --arms D0 --lanes 14  # everybody served

Prints a table, and as its last line {"summary": {...}}.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace

from msgspec.structs import replace as struct_replace

from voicepipe.sim.arms import ARMS, arm
from voicepipe.sim.clairvoyant import planned
from voicepipe.sim.experiment import Setting
from voicepipe.sim.experiments.goodput import ORACLE, TEXTS_HZ
from voicepipe.sim.runner import collect_rarely
from voicepipe.sim.scene import Scene, TextJobs, play
from voicepipe.sim.voice_scenes import ONE_X, calm_scene


@dataclass(frozen=True, slots=True)
class Point:
    arm: str
    turns: int
    kept: int
    events: int
    cpu_s: float
    ms_per_turn: float
    events_per_s: float
    simulated_per_s: float


def measure(name: str, scene: Scene) -> Point:
    began = time.process_time()
    played = play(planned(scene) if name == ORACLE else arm(name, scene, cap=round(ONE_X)))
    cpu_s = time.process_time() - began
    return Point(
        name,
        played.turns,
        sum(asked.kept for asked in played.asked),
        played.events,
        round(cpu_s, 2),
        round(1000 * cpu_s / max(1, played.turns), 3),
        round(played.events / cpu_s),
        round(played.ran_s / cpu_s, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--lanes", type=int, default=1, help="chunks at a time on the device")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arms", nargs="+", default=[*ARMS], choices=[*ARMS, ORACLE])
    args = parser.parse_args()
    collect_rarely()
    scene = replace(
        calm_scene(args.seed, Setting(), args.sessions, args.seconds), begin_s=0.0, texts=TextJobs(TEXTS_HZ)
    )
    first = next(iter(scene.service.lanes))
    lanes = scene.service.lanes | {first: args.lanes}
    scene = replace(scene, service=struct_replace(scene.service, lanes=lanes))
    print(f"{'arm':>4} {'turns':>7} {'in time':>8} {'events':>9} {'CPU s':>6} {'ms/turn':>8} {'sim s/s':>8}")
    points = []
    for name in args.arms:
        point = measure(name, scene)
        points.append(point)
        print(
            f"{point.arm:>4} {point.turns:7d} {point.kept:8d} {point.events:9d} {point.cpu_s:6.1f} "
            f"{point.ms_per_turn:8.2f} {point.simulated_per_s:8.0f}",
            flush=True,
        )
    summary = {
        "sessions": args.sessions,
        "seconds": args.seconds,
        "lanes": args.lanes,
        "points": [asdict(point) for point in points],
    }
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
