"""How fast the simulator is: sessions on one GPU, in virtual time, on one core.

Regime: so many calls under way at a time if all are let in, one simulated hour, service times of the preset `gpu`,
partial transcripts every 320 ms of speech. Under `none` everybody is let in up to overload; under `deadline` most
are refused, and what is left is promised something. CPU seconds of this process, garbage collection included,
profiling off.

Prints a table, and as its last line {"summary": {...}}.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

from voicepipe.config import AdmissionConfig
from voicepipe.sim.scene import Scene, play
from voicepipe.sim.service import ServiceModel, load_service

POLICIES = ("none", "deadline")


@dataclass(frozen=True, slots=True)
class Point:
    policy: str
    lanes: int
    turns: int
    events: int
    cpu_s: float
    turns_per_s: float
    events_per_s: float
    simulated_per_s: float


def measure(policy: str, sessions: float, seconds: float, service: ServiceModel, seed: int) -> Point:
    scene = Scene(
        seed=seed,
        sessions=sessions,
        seconds=seconds,
        service=service,
        admission=AdmissionConfig(policy=policy),  # type: ignore[arg-type]
    )
    began = time.process_time()
    played = play(scene)
    cpu_s = time.process_time() - began
    return Point(
        policy,
        service.lanes["device"],
        played.turns,
        played.events,
        round(cpu_s, 2),
        round(played.turns / cpu_s),
        round(played.events / cpu_s),
        round(played.ran_s / cpu_s, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--service", default="gpu", help="preset, or a file in JSON or TOML")
    parser.add_argument("--lanes", type=int, default=1, help="chunks at a time on the device")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", nargs="+", default=list(POLICIES))
    args = parser.parse_args()
    model = load_service(args.service)
    first = next(iter(model.lanes))
    service = load_service(args.service)
    if args.lanes != model.lanes[first]:
        values = {name: getattr(model, name) for name in ServiceModel.__struct_fields__}
        service = ServiceModel(**values | {"lanes": model.lanes | {first: args.lanes}})
    print(f"{'policy':>10} {'turns':>8} {'events':>10} {'CPU s':>7} {'turns/s':>8} {'events/s':>9} {'sim s/s':>8}")
    points = []
    for policy in args.policies:
        point = measure(policy, args.sessions, args.seconds, service, args.seed)
        points.append(point)
        print(
            f"{point.policy:>10} {point.turns:8d} {point.events:10d} {point.cpu_s:7.1f} {point.turns_per_s:8d} "
            f"{point.events_per_s:9d} {point.simulated_per_s:8.0f}"
        )
    summary = {"sessions": args.sessions, "seconds": args.seconds, "points": [asdict(point) for point in points]}
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
