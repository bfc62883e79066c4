"""`python -m tests.fuzz NAME SECONDS` explores one decoder; `NAME --seed N` shows and plays one input of it.

With `atheris` installed the way is found by coverage, from the corpus; without it the inputs are those of the
mutator. What breaks a promise is written to `fuzz-found/NAME/`: put it, made small, into `tests/fuzz/corpus/NAME`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.mutate import MAX_INPUT_BYTES
from tests.fuzz.target import Broken, Target

FOUND = Path("fuzz-found")
FIRST_SEED = 1_000_000
"""The tests have those before it."""


def keep(target: Target, data: bytes, why: str) -> None:
    folder = FOUND / target.name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    print(f"{path}: {why}", flush=True)


def by_mutation(target: Target, seconds: float) -> int:
    began, count, found = time.monotonic(), 0, dict[str, str]()
    while time.monotonic() - began < seconds:
        data = target.mutate(FIRST_SEED + count)
        count += 1
        try:
            target.check(data)
            if count % 50 == 0:
                target.check_memory(data)
        except Broken as error:
            why = str(error)
            if why[:40] not in found:
                found[why[:40]] = why
                keep(target, data, why)
    print(f"{target.name}: {count} inputs in {seconds:.0f} s, {len(found)} ways to break it")
    return 1 if found else 0


def by_coverage(target: Target, seconds: float, again: list[str]) -> int:
    """libFuzzer ends the process itself: 0, or 77 behind an input that broke something."""
    import atheris

    grown = Path(tempfile.mkdtemp(prefix=f"voicepipe-fuzz-{target.name}-"))
    for number, data in enumerate(target.seeds()):
        (grown / str(number)).write_bytes(data)

    def once(data: bytes) -> None:
        try:
            target.check(data)
        except Broken as error:
            keep(target, data, str(error))
            raise

    options = [f"-max_total_time={seconds:.0f}", f"-max_len={MAX_INPUT_BYTES}", "-print_final_stats=1"]
    (FOUND / target.name).mkdir(parents=True, exist_ok=True)
    prefix = f"-artifact_prefix={FOUND / target.name}/"
    atheris.Setup([sys.argv[0], str(grown), *options, prefix, *again], once)
    atheris.Fuzz()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("name", help="a decoder, or `all`")
    parser.add_argument("seconds", type=float, nargs="?", default=60.0, help="of each (default: 60)")
    parser.add_argument("--seed", type=int, help="show the mutator's input of that seed, and check it")
    parser.add_argument("--mutate", action="store_true", help="without coverage, though atheris is there")
    parser.add_argument("--libfuzzer", action="append", default=[], help="an option more for libFuzzer")
    args = parser.parse_args()
    has_coverage = importlib.util.find_spec("atheris") is not None and not args.mutate and args.seed is None
    if has_coverage and args.name != "all":
        import atheris

        with atheris.instrument_imports(include=["voicepipe"]):
            from tests.fuzz.decoders import TARGETS
    else:
        from tests.fuzz.decoders import TARGETS
    if args.name != "all" and args.name not in TARGETS:
        parser.error(f"NAME is one of {', '.join(TARGETS)}, all")
    if args.name == "all":  # libFuzzer ends its process, so that several in a row go without
        return max([by_mutation(target, args.seconds) for target in TARGETS.values()])
    target = TARGETS[args.name]
    if args.seed is not None:
        data = target.mutate(args.seed)
        print(data)
        print(target.check(data), target.check_memory(data))
        return 0
    return by_coverage(target, args.seconds, args.libfuzzer) if has_coverage else by_mutation(target, args.seconds)


if __name__ == "__main__":
    sys.exit(main())
