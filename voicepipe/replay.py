"""Tells fresh components of core what a recording holds, and compares what they answer.

All that they depend on is in the file, so they must answer the same: `now` is an argument, work ids are issued as
they were, and the order of the lines is the order of the calls. The first difference ends it, because all that
follows may be its consequence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from voicepipe.errors import RecordingError
from voicepipe.tape import (
    COMPONENTS,
    NOTHING,
    NOW,
    REQUIRED,
    SERIAL,
    VERSION,
    Argument,
    End,
    Head,
    Input,
    Made,
    Unlike,
    arguments_of,
    constructor_of,
    decode,
    first_difference,
    inputs_of,
    named,
    text,
    value_of,
)


@dataclass(frozen=True, slots=True)
class Difference:
    line: int
    """From 1, of the file."""
    input: Input
    unlike: Unlike
    """`at` is `out`, `ids` or `raised`, and where in it."""


@dataclass(frozen=True, slots=True)
class Report:
    head: Head
    sessions: int
    """Of those that began before the end or the first difference."""
    inputs: int
    """That got the same answer, of all components."""
    commands: int
    """In those answers."""
    difference: Difference | None = None
    lost: int = 0
    """Entries missing before the next one: they came too fast for the disk. What follows cannot be replayed."""
    whole: bool = False
    """The file has its end. Without one the process was killed, or the disk was full."""

    @property
    def agreed(self) -> bool:
        return self.difference is None and not self.lost


def replay(lines: Iterable[bytes], name: str) -> Report:
    """`lines` end with a newline each; one that does not was cut off, and is not looked at. Raises RecordingError,
    naming the file, the line and the field."""
    told = iter(enumerate(lines, 1))
    try:
        head = _head(next(told, (1, b""))[1])
    except RecordingError as exc:
        raise RecordingError(f"{name}: {exc.message}", field=exc.field) from None
    run = _Run()
    for number, line in told:
        if not line.endswith(b"\n"):
            break
        try:
            if not run.goes_on(line, number):
                break
        except RecordingError as exc:
            raise RecordingError(f"{name}, line {number}: {exc.message}", field=exc.field) from None
    return Report(head, run.sessions, run.inputs, run.commands, run.difference, run.lost, run.whole)


def _head(line: bytes) -> Head:
    """Looks at the version first: of another one, nothing else need be as here."""
    try:
        raw = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raw = None
    match raw:
        case {"entry": "recording", "version": version} if version != VERSION:
            problem = f"a recording of version {text(version)}; this voicepipe replays version {VERSION}"
            raise RecordingError(problem, field="version")
        case {"entry": "recording"} if line.endswith(b"\n"):
            if isinstance(head := decode(line), Head):  # one whose `entry` stands there twice is another one
                return head
    raise RecordingError("no recording: those of `--record` are replayed")


class _Fed:
    """Issues the recorded ids. Whoever draws more gets the numbers that follow, and is found out by that."""

    def __init__(self) -> None:
        self._coming: deque[int] = deque()
        self._last = 0
        self.drawn: list[int] = []

    def feed(self, ids: Iterable[int]) -> None:
        self._coming, self.drawn = deque(ids), []

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self._last = self._coming.popleft() if self._coming else self._last + 1
        self.drawn.append(self._last)
        return self._last


@dataclass(frozen=True, slots=True)
class _Component:
    inner: object
    serial: _Fed


class _Run:
    """What has come of the lines so far."""

    def __init__(self) -> None:
        self._components: dict[str, _Component] = {}
        self._n = 0
        self.sessions = 0
        self.inputs = 0
        self.commands = 0
        self.difference: Difference | None = None
        self.lost = 0
        self.whole = False

    def goes_on(self, line: bytes, number: int) -> bool:
        """Whether the next line is to be looked at."""
        entry = decode(line)
        if self.whole or isinstance(entry, Head):
            raise RecordingError("an entry that is out of place", field="entry")
        if isinstance(entry, End):
            self.whole = True
            return True
        self.lost = entry.n - self._n - 1
        if self.lost < 0:
            raise RecordingError(f"n: {entry.n} after {self._n}", field="n")
        if self.lost:
            return False
        self._n = entry.n
        if isinstance(entry, Made):
            self._make(entry)
        else:
            self._tell(entry, number)
        return self.difference is None

    def _make(self, made: Made) -> None:
        component = COMPONENTS.get(made.component)
        if component is None:
            raise RecordingError(f"component: no {text(made.component)} is known", field="component")
        known = dict(arguments_of(constructor_of(component)))
        serial = _Fed()
        more = {SERIAL: serial} if known.pop(SERIAL, None) is not None else {}
        args = _arguments(known, made.args, made.component)
        try:
            inner = component(**args, **more)
        except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as exc:
            # Arguments of the right kinds, that do not go together: nothing of ours wrote this line.
            problem = f"args: {made.component} cannot be made of them ({type(exc).__name__})"
            raise RecordingError(problem, field="args") from None
        self._components[made.name] = _Component(inner, serial)
        self.sessions += SERIAL in more

    def _tell(self, told: Input, number: int) -> None:
        component = self._components.get(told.to)
        if component is None:
            raise RecordingError(f"to: nothing was made that is called {text(told.to)}", field="to")
        function = inputs_of(type(component.inner)).get(told.on)
        if function is None:
            raise RecordingError(f"on: {type(component.inner).__name__} has no {text(told.on)}", field="on")
        given = told.args if told.now is None else {**told.args, NOW: told.now}
        args = _arguments(arguments_of(function), given, told.on)
        got = _answer(component, told, args)
        expected = {"raised": told.raised, "out": told.out, "ids": list(told.ids)}
        unlike = first_difference(expected, got)
        if unlike is None:
            self.inputs += 1
            self.commands += len(told.out or ())
        else:
            self.difference = Difference(number, told, unlike)


def _arguments(known: Mapping[str, Argument], given: Mapping[str, object], field: str) -> dict[str, Any]:
    for name in given:
        if name not in known:
            raise RecordingError(f"{field}.{name}: there is no such argument", field=f"{field}.{name}")
    for name, argument in known.items():
        if argument.default is REQUIRED and name not in given:
            raise RecordingError(f"{field}.{name}: the argument is missing", field=f"{field}.{name}")
    return {name: value_of(known[name].annotation, raw, f"{field}.{name}") for name, raw in given.items()}


def _answer(component: _Component, told: Input, args: Mapping[str, Any]) -> dict[str, object]:
    component.serial.feed(told.ids)
    out, raised = None, None
    try:
        commands = getattr(component.inner, told.on)(**args)
        out = None if commands is None else [named(command) for command in commands]
    except Exception as exc:  # the boundary to what is replayed: that it raises may be what was recorded
        raised = type(exc).__name__
    return {"raised": raised, "out": out, "ids": component.serial.drawn}


# --- what is told of it


def as_dict(report: Report) -> dict[str, object]:
    """For machines. `expected` and `got` are null where one side has nothing."""
    found = report.difference
    return {
        "agreed": report.agreed,
        "sessions": report.sessions,
        "inputs": report.inputs,
        "commands": report.commands,
        "whole": report.whole,
        "lost": report.lost,
        "recorded_by": {"voicepipe": report.head.voicepipe, "python": report.head.python},
        "difference": None if found is None else _difference_dict(found),
    }


def _difference_dict(found: Difference) -> dict[str, object]:
    told, unlike = found.input, found.unlike
    expected, got = (None if side is NOTHING else side for side in (unlike.expected, unlike.got))
    where = {"line": found.line, "to": told.to, "on": told.on, "now": told.now, "args": told.args}
    return {**where, "at": unlike.at.lstrip("."), "expected": expected, "got": got}


def as_lines(report: Report) -> list[str]:
    """For people."""
    what = {"input": report.inputs, "command": report.commands, "session": report.sessions}
    counts = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in what.items())
    by = f"recorded by voicepipe {report.head.voicepipe} on Python {report.head.python}"
    if report.agreed and not report.inputs:
        end = "" if report.whole else ", and breaks off there"
        return [f"no calls recorded: the file holds nothing to decide anew{end} ({by})"]
    if report.agreed:
        end = "" if report.whole else "; the recording breaks off there"
        return [f"{counts} agree{end} ({by})"]
    if report.lost:
        return [f"{counts} agree; {report.lost} entries that follow were not recorded, the rest cannot be replayed"]
    assert report.difference is not None
    found = report.difference
    told, unlike = found.input, found.unlike
    when = "" if told.now is None else f" at {told.now} s"
    return [
        f"line {found.line} differs, {told.on} of {told.to}{when}: {unlike.at.lstrip('.')}",
        f"  input     {text(told.args)}",
        f"  expected  {text(unlike.expected)}",
        f"  got       {text(unlike.got)}",
        f"{counts} before it agree ({by})",
    ]
