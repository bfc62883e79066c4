"""Texts that nobody waits to hear, as `core.background` has them: what the server's text service does, without a
reader and without words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from voicepipe.core import background as core
from voicepipe.core.events import Timing, Work
from voicepipe.core.forecast import Forecaster
from voicepipe.sim.draws import Draw, Draws
from voicepipe.sim.timeline import Timeline

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class TextJob:
    prompt_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Tally:
    """Of all texts of a run."""

    asked: int = 0
    refused: int = 0
    done: int = 0
    read_tokens: int = 0
    written_tokens: int = 0


class _Machine(Protocol):
    def submit(self, work: Work, client: Writer, draw: Draw) -> None: ...
    def withdraw(self, work: Work) -> None: ...


@dataclass(slots=True)
class _Text:
    job: TextJob
    split: bool = False
    read: int = 0
    written: int = 0

    @property
    def is_done(self) -> bool:
        return self.written >= self.job.output_tokens

    def advance(self, variant: str, units: int) -> tuple[int, int]:
        """(tokens read, tokens written) by a chunk of that size."""
        if variant == "split":
            self.split = True
            return 0, 0
        if variant == "prefill":
            read = min(units, self.job.prompt_tokens - self.read)
            self.read += read
            return read, 0
        written = min(units, self.job.output_tokens - self.written)
        self.written += written
        return 0, written

    def rest(self) -> core.Rest | None:
        if self.is_done:
            return None
        left = self.job.prompt_tokens - self.read
        if left:
            return core.Rest("prefill", left, self.read)
        return core.Rest("decode", self.job.output_tokens - self.written, self.read + self.written)


class Writer:
    def __init__(
        self,
        machine: _Machine,
        timeline: Timeline,
        forecaster: Forecaster,
        draws: Draws,
        settings: core.TextSettings,
        tally: Tally,
        on_slots: Callable[[int], None],
    ) -> None:
        """`on_slots` is told how many more slots are taken: 1 or -1."""
        self._machine = machine
        self._timeline = timeline
        self._forecaster = forecaster
        self._draws = draws
        self._ran = 0
        """Chunks so far."""
        self._settings = settings
        self._tally = tally
        self._on_slots = on_slots
        self._core = core.Background(settings, count(1))
        self._idents = count(1)
        self._jobs: dict[str, TextJob] = {}
        """Of those that wait for a slot."""
        self._texts: dict[str, _Text] = {}
        """Those that have one."""
        self._chunk: core.Generate | None = None
        """The newest that was submitted."""
        self._at_work: tuple[str, ...] = ()

    def request(self, job: TextJob) -> bool:
        """False: too many wait already."""
        ident = f"t{next(self._idents)}"
        self._jobs[ident] = job
        commands = self._core.on_request(ident, CHARACTERS_PER_TOKEN * job.prompt_tokens, self._timeline.now)
        match commands:
            case [core.RefuseText()]:
                del self._jobs[ident]
                return False
            case _:
                self._pump(commands)
                return True

    def close(self) -> None:
        """What is left is not wanted any more; a chunk that runs ends by itself."""
        for ident in (*self._jobs, *self._texts):
            self._pump(self._core.on_cancel(ident, self._timeline.now))

    # the machine

    def on_run(self, work: Work) -> None:
        assert work.load is not None and self._chunk is not None and self._chunk.work.id == work.id
        self._at_work = self._chunk.idents_at(work.load)
        self._core.on_begun(work.id, work.load, self._timeline.now)

    def on_ran(self, work: Work, timing: Timing) -> None:
        assert work.load is not None
        self._ran += 1
        rests: dict[str, core.Rest | None] = {}
        for ident in self._at_work:
            text = self._texts[ident]
            read, written = text.advance(work.load.variant, round(work.load.units))
            self._tally.read_tokens += read
            self._tally.written_tokens += written
            rests[ident] = text.rest()
            self._tally.done += text.is_done
        self._pump(self._core.on_ran(work.id, rests, self._timeline.now))

    def on_dropped(self, work: Work) -> None:
        """Taken back."""

    def on_failed(self, work: Work, code: str) -> None:
        raise AssertionError(f"one chunk of texts is out at a time, and was turned away: {code}")

    # inner

    def _pump(self, commands: list[core.TextCommand]) -> None:
        for command in commands:
            match command:
                case core.OpenText(ident):
                    self._texts[ident] = _Text(self._jobs.pop(ident))
                    self._on_slots(1)
                case core.CloseText(ident):
                    del self._texts[ident]
                    self._on_slots(-1)
                case core.TakeBack(work):
                    self._machine.withdraw(work)
                case core.Generate(work, _, sizes, start):
                    self._chunk = command
                    offered = self._forecaster.offer(work, sizes, start, self._settings.longest_s)
                    self._machine.submit(offered, self, self._draws.of(core.SESSION, 0, f"chunk {self._ran}"))
                case core.RefuseText():
                    raise AssertionError("only a request is refused")
