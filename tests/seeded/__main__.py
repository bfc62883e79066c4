"""`python -m tests.seeded SEED` plays one and shows it; `python -m tests.seeded FIRST COUNT` plays many."""

from __future__ import annotations

import logging
import sys
import time
import traceback

from tests.seeded.world import play

SHOWN = 20
USAGE = "python -m tests.seeded SEED, or FIRST COUNT"


def one(seed: int) -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
    print(f"seed {seed}: {play(seed, print).digest}")
    return 0


def many(first: int, count: int) -> int:
    logging.disable(logging.CRITICAL)
    failed, began = 0, time.perf_counter()
    for seed in range(first, first + count):
        try:
            play(seed)
        except Exception as exc:
            failed += 1
            if failed <= SHOWN:
                print(f"python -m tests.seeded {seed}  # {type(exc).__name__}: {str(exc)[:150]}")
            if failed == 1:
                traceback.print_exc()
    took_s = time.perf_counter() - began
    print(f"{count} seeds from {first} on: {failed} failed, {took_s:.1f} s, {1000 * took_s / count:.1f} ms each")
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    match numbers:
        case [seed]:
            sys.exit(one(seed))
        case [first, count]:
            sys.exit(many(first, count))
        case _:
            sys.exit(USAGE)
