"""A process that ensures the toy model, and stops at a stage until its parent lets it go on.

    python -m tests.models.child ROOT WHEELS STAGE

Prints each new stage on a line of its own. In the middle of STAGE it waits for a line on stdin. At
the end it prints `path` and what the downloader was asked for.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from tests.models.fakes import CopyDownloader, toy_model
from voicepipe.models import ModelStore, Progress


class Stepper:
    def __init__(self, stop_at: str) -> None:
        self._stop_at = stop_at
        self._seen: set[str] = set()

    def __call__(self, progress: Progress) -> None:
        if progress.stage not in self._seen:
            self._seen.add(progress.stage)
            print(progress.stage, flush=True)
        if progress.stage == self._stop_at and progress.done_bytes > 0:
            self._stop_at = ""
            print("stopped", flush=True)
            sys.stdin.readline()


def main(root: Path, wheels: Path, stop_at: str) -> None:
    model = toy_model(wheels / "own")
    downloader = CopyDownloader(wheels / "own")
    store = ModelStore(root, report=Stepper(stop_at), catalog={model.name: model}, downloader=downloader)
    try:
        path = store.ensure("toy")
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise SystemExit(130) from None
    print(f"path {path} calls {','.join(downloader.calls)}", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent that ignores it hands that down
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
