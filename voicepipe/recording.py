"""Records what core is told and what it answers, so that it can be told again: see `replay`.

The components stay as they are. Each is handed out behind a stand-in that has the same methods and notes what goes
in and what comes out; how that is written is told in `tape`. A recording holds what was said.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from voicepipe import __version__
from voicepipe.core.events import WorkKind
from voicepipe.core.scheduler import Pool, Scheduler
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import TurnSettings
from voicepipe.filing import Format, Writer
from voicepipe.tape import (
    HOLDS,
    NOW,
    REQUIRED,
    VERSION,
    End,
    Head,
    Input,
    Made,
    arguments_of,
    constructor_of,
    encode,
    inputs_of,
    named,
)

SCHEDULER = "scheduler"
"""The name of the device's scheduler in a recording; turns go by the name of their session."""


class Tape:
    """Makes components whose inputs go to `put`, one entry each, in the order of the calls. All of them are called
    on one thread; the entries may be formatted on another."""

    def __init__(self, put: Callable[[Format], None]) -> None:
        self._put = put
        self._n = 0

    def turns(self, session: str, settings: TurnSettings, serial: Iterator[int]) -> Turns:
        drawn = _Drawn(serial)
        turns = Turns(session, settings, drawn)
        self._made(session, Turns, session=session, settings=settings)
        return cast(Turns, _StandIn(turns, partial(self._note, session), drawn))

    def scheduler(
        self,
        placement: Mapping[WorkKind, str],
        capacity: Mapping[str, int],
        *,
        max_queued: int | None = None,
        pool: Pool | None = None,
    ) -> Scheduler:
        args: dict[str, Any] = {"placement": dict(placement), "capacity": dict(capacity)}
        if max_queued is not None:
            args["max_queued"] = max_queued
        if pool is not None:
            args["pool"] = pool
        self._made(SCHEDULER, Scheduler, **args)
        return cast(Scheduler, _StandIn(Scheduler(**args), partial(self._note, SCHEDULER)))

    def _made(self, name: str, component: type[object], **args: object) -> None:
        self._n += 1
        self._put(partial(_made_line, self._n, name, component, args))

    def _note(self, to: str, call: _Call) -> None:
        self._n += 1
        self._put(partial(_input_line, self._n, to, call))


class RecordingWriter(Writer):
    """A tape in a file."""

    def __init__(self, path: Path) -> None:
        """Replaces the file. Raises ConfigError where it cannot be written."""
        head = Head(version=VERSION, holds=HOLDS, voicepipe=__version__, python=platform.python_version())
        super().__init__(path, "--record", encode(head), encode(End()))
        self.tape = Tape(self._file.put)


class _Call:
    """What went into a method and what came out."""

    __slots__ = ("args", "ids", "method", "out", "raised")

    def __init__(self, method: Callable[..., object], args: Mapping[str, object]) -> None:
        self.method = method
        self.args = args
        self.ids: tuple[int, ...] = ()
        self.out: tuple[object, ...] | None = None
        self.raised: str | None = None


class _Drawn:
    """Hands serial numbers on, and keeps those since the last `take`."""

    def __init__(self, serial: Iterator[int]) -> None:
        self._serial = serial
        self._ids: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        ident = next(self._serial)
        self._ids.append(ident)
        return ident

    def take(self) -> tuple[int, ...]:
        ids, self._ids = self._ids, []
        return tuple(ids)


class _StandIn:
    """Everything that `inner` has; of its inputs, `note` is told. Those that it calls on itself are none."""

    def __init__(self, inner: object, note: Callable[[_Call], None], drawn: _Drawn | None = None) -> None:
        self._inner = inner
        for name, function in inputs_of(type(inner)).items():
            setattr(self, name, _noting(getattr(inner, name), function, note, drawn))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _noting(
    method: Callable[..., Any], function: Callable[..., object], note: Callable[[_Call], None], drawn: _Drawn | None
) -> Callable[..., Any]:
    names = tuple(arguments_of(function))

    def call(*args: object, **more: object) -> Any:
        noted = _Call(function, dict(zip(names, args, strict=False)) | more)
        try:
            commands = method(*args, **more)
            noted.out = None if commands is None else tuple(commands)
            return commands
        except BaseException as exc:
            noted.raised = type(exc).__name__
            raise
        finally:
            if drawn is not None:
                noted.ids = drawn.take()
            note(noted)

    return call


def _made_line(n: int, name: str, component: type[object], args: Mapping[str, object]) -> bytes:
    written = _written(constructor_of(component), args)
    return encode(Made(n=n, name=name, component=component.__name__, args=written))


def _input_line(n: int, to: str, call: _Call) -> bytes:
    args = _written(call.method, call.args)
    now = args.pop(NOW, None)
    out = None if call.out is None else [named(command) for command in call.out]
    name = call.method.__name__
    entry = Input(n=n, to=to, on=name, now=now, args=args, ids=call.ids, out=out, raised=call.raised)
    return encode(entry)


def _written(function: Callable[..., object], args: Mapping[str, object]) -> dict[str, Any]:
    """With what was left to its default: that may be another one when it is replayed."""
    defaults = {name: one.default for name, one in arguments_of(function).items() if one.default is not REQUIRED}
    return {name: named(value) for name, value in (defaults | {**args}).items()}
