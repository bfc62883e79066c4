"""Points times seeds of an experiment, over the cores that there are.

Which run ends first depends on the machine; what comes out does not: rows are in the order of their points, and
each is of all seeds of its point. A point of which a run is missing, because somebody has had enough or because it
failed, has no row.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker

from voicepipe.sim.experiment import Experiment, Measured, Point, Row, Setting
from voicepipe.sim.statistics import interval

Progress = Callable[[int, int], None]
"""(runs that are done, runs in all): at each that ends, and between them every TOLD_S where workers run them."""
TOLD_S = 10.0


def nobody_looks(done: int, of: int) -> None:
    """No progress is shown."""


@dataclass(slots=True)
class Results:
    """What has been measured so far."""

    experiment: Experiment
    setting: Setting
    seeds: Sequence[int]
    points: Sequence[Point] = field(init=False)
    _measured: dict[tuple[int, int], Measured] = field(init=False, default_factory=dict)
    """By place of the point and of the seed."""

    def __post_init__(self) -> None:
        assert self.seeds, "an experiment runs with one seed at least"
        self.points = tuple(self.experiment.points(self.setting))

    @property
    def runs(self) -> int:
        return len(self.points) * len(self.seeds)

    @property
    def done(self) -> int:
        return len(self._measured)

    def keep(self, point: int, seed: int, measured: Measured) -> None:
        self._measured[point, seed] = measured

    def rows(self) -> list[Row]:
        """Of the points of which every seed has run."""
        rows = []
        for at, point in enumerate(self.points):
            of_seeds = [self._measured.get((at, seed)) for seed in range(len(self.seeds))]
            measured = [each for each in of_seeds if each is not None]
            if len(measured) == len(self.seeds):
                rows.append(row(point, measured))
        return rows


def row(point: Point, measured: Sequence[Measured]) -> Row:
    """A point and the means over its seeds, with their intervals. A seed that measured nothing of a kind does not
    count for it; six significant digits."""
    found: Row = dict(point)
    for name in measured[0]:
        values = [value for value in (each[name] for each in measured) if value is not None]
        if not values:
            found[name] = None
            continue
        about = interval(values)
        found[name] = rounded(about.mean)
        if about.low != about.high:
            found[f"{name}_low"], found[f"{name}_high"] = rounded(about.low), rounded(about.high)
    found["seeds"] = len(measured)
    return found


def rounded(value: float) -> float:
    """What is a whole number stays one in print."""
    return float(f"{value:.6g}")


def sweep(results: Results, *, processes: int, progress: Progress = nobody_looks) -> None:
    """Runs what is not done. `results` holds what is, whatever ends this: KeyboardInterrupt, or what a run has
    raised. One process is this one."""
    progress(results.done, results.runs)
    jobs = [(point, seed) for point in range(len(results.points)) for seed in range(len(results.seeds))]
    if processes <= 1 or len(jobs) == 1:
        for point, seed in jobs:
            results.keep(point, seed, _run(results, point, seed))
            progress(results.done, results.runs)
        return
    with _workers(min(processes, len(jobs))) as pool:
        with _signals_wait():
            places = {_submit(pool, results, point, seed): (point, seed) for point, seed in jobs}
        running = set(places)
        while running:
            ended, running = wait(running, TOLD_S, FIRST_COMPLETED)
            for future in ended:
                results.keep(*places[future], future.result())
                progress(results.done, results.runs)
            if not ended:
                progress(results.done, results.runs)


def _run(results: Results, point: int, seed: int) -> Measured:
    return results.experiment.run(results.points[point], results.seeds[seed], results.setting)


def _submit(pool: ProcessPoolExecutor, results: Results, point: int, seed: int) -> Future[Measured]:
    run = results.experiment.run
    return pool.submit(run, results.points[point], results.seeds[seed], results.setting)


@contextmanager
def _workers(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Left early, they are killed in the middle of what they do: a run may take a minute, nobody waits for it who
    has pressed Ctrl-C, and there is nothing that it would have to put in order."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin)
    try:
        yield pool
    except BaseException:
        for worker in set(multiprocessing.active_children()) - before:
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """While workers and the pool's thread are begun: they inherit that Ctrl-C is not for them, and none is half
    begun when it comes."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # which lets signals through, if it is begun later
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Ctrl-C is left to the parent, and nothing outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    collect_rarely()


def _end_with_parent() -> None:
    """The pool's queue is held open by its other workers, and does not tell that nobody writes to it any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has been begun by somebody"
    connection.wait([parent.sentinel])
    os._exit(1)


def collect_rarely() -> None:
    """For a process that does nothing but simulate: most of its objects live as long as a session does, and to look
    through them time and again takes one second in fifteen."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
