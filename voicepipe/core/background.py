"""Texts that nobody waits to hear: who has a slot, and what the next chunk is.

A request gets a slot or waits for one, in the order of arrival; where too many wait it is refused, with the time to
come back. What has a slot is split into tokens, read, and written. One chunk is out at a time: reading, of the one
that has been waiting longest, takes turns with writing, which all that have been read share. The chunk's sizes are
offered, and the scheduler takes the largest that fits the slack at the instant at which it runs. Where not all of
them fit into one, those go first that have been written to least recently.

Between two chunks anything can be stopped: a chunk that has not begun is taken back and made anew whenever a text
comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf

from voicepipe.core.events import Load, Work, WorkClass, WorkKind

SESSION = "texts"
"""All chunks are of this session; those of voice have other names."""
RETRY_MIN_S, RETRY_MAX_S = 1, 60
NEWEST_WEIGHT = 0.1
"""Of the newest text's time in its slot, in the mean."""


@dataclass(frozen=True, slots=True)
class TextSettings:
    model: str
    slots: int = 4
    max_waiting: int = 16
    reading: tuple[int, ...] = (2, 4, 8, 16)
    """Tokens that a chunk may read, ascending."""
    writing: tuple[int, ...] = (1, 2, 4, 8)
    """Tokens of each text that a chunk may make, ascending."""
    start_reading: int = 8
    start_writing: int = 2
    """The only size while the costs are not known."""
    longest_s: float = 0.06
    """No larger size is offered than one whose bound keeps to this: somebody may begin to speak at any moment."""
    expected_s: float = 5.0
    """How long a text has its slot, before one has been seen."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What a text's next phase has to do, as its engine says."""

    variant: str
    """"split", "prefill" or "decode"."""
    units: float
    """Characters, tokens to read, tokens that it may still make."""
    context: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenText:
    """It has a slot from now on."""

    ident: str


@dataclass(frozen=True, slots=True)
class CloseText:
    """Give its slot back."""

    ident: str


@dataclass(frozen=True, slots=True)
class RefuseText:
    ident: str
    retry_after_s: int


@dataclass(frozen=True, slots=True)
class Generate:
    """Submit this chunk."""

    work: Work
    idents: tuple[str, ...]
    """Those that it is for, or may be: a size of fewer rows is for the first of them."""
    sizes: tuple[Load, ...]
    """It may have, smallest first."""
    start: int
    """Index of the one that it has while its cost is not known."""

    def idents_at(self, load: Load) -> tuple[str, ...]:
        """Those that it is for at this size."""
        return self.idents[: text_rows(load.variant)]


@dataclass(frozen=True, slots=True)
class TakeBack:
    """This chunk is not wanted any more; it has not begun."""

    work: Work


TextCommand = OpenText | CloseText | RefuseText | Generate | TakeBack


@dataclass(frozen=True, slots=True)
class TextSnapshot:
    running: int
    """Texts that have a slot."""
    waiting: int
    refused: int
    mean_s: float
    """In its slot."""


@dataclass(slots=True)
class _Running:
    came: float
    opened: float
    rest: Rest
    written: int = 0
    """Number of the last chunk that wrote it."""


class Background:
    def __init__(self, settings: TextSettings, serial: Iterator[int]) -> None:
        """`serial` issues work ids."""
        assert settings.slots >= 1 and settings.max_waiting >= 0
        self._settings = settings
        self._serial = serial
        self._running: dict[str, _Running] = {}
        """In the order in which they came."""
        self._waiting: dict[str, tuple[int, float]] = {}
        """Characters of the prompt, and when it came."""
        self._out: Generate | None = None
        """The chunk that is submitted."""
        self._begun = False
        self._unwanted: set[str] = set()
        """Cancelled while a chunk of theirs runs."""
        self._at_work: tuple[str, ...] = ()
        """Those that the chunk is for that runs."""
        self._wrote_last = True
        self._seen: dict[str, float] = {}
        """The largest size that has run, by variant: bounds are not trusted far beyond it."""
        self._refused = 0
        self._mean_s = settings.expected_s

    def on_request(self, ident: str, characters: int, now: float) -> list[TextCommand]:
        """`ident` is used once."""
        if len(self._running) >= self._settings.slots and len(self._waiting) >= self._settings.max_waiting:
            self._refused += 1
            return [RefuseText(ident, self._retry_after_s())]
        self._waiting[ident] = (characters, now)
        return self._go_on(now)

    def on_begun(self, work_id: int, load: Load, now: float) -> list[TextCommand]:
        """The device has begun with the chunk, at this size."""
        assert self._out is not None and self._out.work.id == work_id
        self._begun = True
        self._at_work = self._out.idents_at(load)
        for ident in self._at_work:
            self._running[ident].written = work_id
        self._seen[load.variant] = max(load.units, self._seen.get(load.variant, 0.0))
        return []

    def on_ran(self, work_id: int, rests: Mapping[str, Rest | None], now: float) -> list[TextCommand]:
        """The chunk has run. `rests`: of each text that it was for at its size; None for one that is done, or has
        failed."""
        assert self._out is not None and self._out.work.id == work_id
        chunk, self._out, self._begun = self._out, None, False
        self._wrote_last = chunk.sizes[0].variant.startswith("decode")
        commands: list[TextCommand] = []
        assert rests.keys() == set(self._at_work)
        for ident, rest in rests.items():
            if rest is None or ident in self._unwanted:
                commands.append(self._close(ident, now, whole=rest is None and ident not in self._unwanted))
            else:
                self._running[ident].rest = rest
        self._unwanted.clear()
        self._at_work = ()
        return commands + self._go_on(now)

    def on_cancel(self, ident: str, now: float) -> list[TextCommand]:
        """Nobody wants it any more; harmless where it has ended."""
        if self._waiting.pop(ident, None) is not None or ident not in self._running:
            return []
        if ident in self._at_work:
            self._unwanted.add(ident)
            return []
        return [self._close(ident, now, whole=False), *self._go_on(now)]

    def next_deadline(self) -> float | None:
        """It has no timer: the scheduler has."""
        return None

    def on_timer(self, now: float) -> list[TextCommand]:
        return []

    def snapshot(self) -> TextSnapshot:
        return TextSnapshot(len(self._running), len(self._waiting), self._refused, self._mean_s)

    # inner

    def _close(self, ident: str, now: float, *, whole: bool) -> CloseText:
        ended = self._running.pop(ident)
        if whole:
            self._mean_s += NEWEST_WEIGHT * (now - ended.opened - self._mean_s)
        return CloseText(ident)

    def _go_on(self, now: float) -> list[TextCommand]:
        """Fill free slots, and make the next chunk of what there is now."""
        commands: list[TextCommand] = []
        while self._waiting and len(self._running) < self._settings.slots:
            ident = next(iter(self._waiting))
            characters, came = self._waiting.pop(ident)
            self._running[ident] = _Running(came, now, Rest("split", characters))
            commands.append(OpenText(ident))
        if self._begun:
            return commands
        planned = self._next_chunk()
        if self._out is not None:
            if planned is not None and (planned.idents, planned.sizes) == (self._out.idents, self._out.sizes):
                return commands
            commands.append(TakeBack(self._out.work))
        self._out = planned
        return commands if planned is None else [*commands, planned]

    def _next_chunk(self) -> Generate | None:
        readers = [ident for ident, text in self._running.items() if text.rest.variant != "decode"]
        writers = [ident for ident, text in self._running.items() if text.rest.variant == "decode"]
        writers.sort(key=lambda ident: self._running[ident].written)
        if readers and (self._wrote_last or not writers):
            return self._reading(readers[0])
        return self._writing(tuple(writers)) if writers else None

    def _reading(self, ident: str) -> Generate:
        rest, settings = self._running[ident].rest, self._settings
        if rest.variant == "split":
            return self._chunk((ident,), [Load(settings.model, rest.units, variant="split")], rest.units)
        loads = self._loads("prefill", settings.reading, settings.start_reading, rest.units, rest.context)
        return self._chunk((ident,), loads, settings.start_reading)

    def _writing(self, idents: tuple[str, ...]) -> Generate:
        """One text and all of them get several tokens each; numbers between, one."""
        settings, every = self._settings, len(idents)
        loads: list[Load] = []
        for rows in range(1, every + 1):
            rests = [self._running[ident].rest for ident in idents[:rows]]
            most, context = max(rest.units for rest in rests), sum(rest.context for rest in rests)
            sizes = settings.writing if rows in (1, every) else settings.writing[:1]
            loads += self._loads(text_variant(rows), sizes, settings.start_writing, most, context)
        # One text is given no more than all of them get with a token each: they take turns.
        loads = [load for load in loads if text_rows(load.variant) == every or load.units <= every]
        loads.sort(key=lambda load: (load.units * text_rows(load.variant), text_rows(load.variant)))
        return self._chunk(idents, loads, settings.start_writing)

    def _loads(self, variant: str, sizes: tuple[int, ...], start: int, most: float, context: float) -> list[Load]:
        """Up to twice the largest that has run. Sizes beyond what is left to do are that. Each token that is
        written attends to the context anew."""
        trusted = max(start, 2 * self._seen.get(variant, 0.0))
        units = sorted({min(size, max(1.0, most)) for size in sizes if size <= trusted})
        times = [1.0 if variant == "prefill" else each for each in units]
        model = self._settings.model
        return [Load(model, each, n * context, variant) for each, n in zip(units, times, strict=True)]

    def _chunk(self, idents: tuple[str, ...], loads: list[Load], start_units: float) -> Generate:
        alone = [index for index, load in enumerate(loads) if text_rows(load.variant) == 1]
        start = max((index for index in alone if loads[index].units <= start_units), default=0)
        since = min(self._running[ident].came for ident in idents)
        kind, klass = WorkKind.GENERATE, WorkClass.BACKGROUND
        work = Work(next(self._serial), SESSION, 0, 0, 0, kind, klass, since=since)
        return Generate(work, idents, tuple(loads), start)

    def _retry_after_s(self) -> int:
        turns_s = self._mean_s * (len(self._waiting) + 1) / self._settings.slots
        return min(max(ceil(turns_s), RETRY_MIN_S), RETRY_MAX_S)


def text_variant(rows: int) -> str:
    """Of a chunk that writes so many texts at once. Each number of them has a price of its own, which is not in
    proportion."""
    return f"decode-{rows}"


def text_rows(variant: str) -> int:
    """The texts that a chunk of this variant is for."""
    return int(variant.removeprefix("decode-")) if variant.startswith("decode-") else 1


NO_LIMIT_S = inf
"""As `longest_s`: chunks as large as the engine takes them."""
