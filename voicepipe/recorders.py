"""The files that are written while turns run, as the command line asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from voicepipe.errors import ConfigError
from voicepipe.ledgers import LedgerWriter
from voicepipe.recording import RecordingWriter, Tape
from voicepipe.services import Recorder
from voicepipe.trace import TraceWriter


@dataclass(frozen=True, slots=True)
class Recorders:
    observers: tuple[Recorder, ...] = ()
    """Told of every chunk and every turn."""
    tape: Tape | None = None
    """Makes the components whose inputs are recorded; None where they are not."""


@contextmanager
def open_recorders(ledger: Path | None, trace: Path | None, record: Path | None) -> Iterator[Recorders]:
    """Opened before anything is fetched or loaded. Raises ConfigError."""
    check_different({"--ledger": ledger, "--trace": trace, "--record": record})
    with ExitStack() as stack:
        observers: list[Recorder] = []
        if ledger is not None:
            observers.append(stack.enter_context(closing(LedgerWriter(ledger))))
        if trace is not None:
            observers.append(stack.enter_context(closing(TraceWriter(trace))))
        tape = None if record is None else stack.enter_context(closing(RecordingWriter(record))).tape
        yield Recorders(tuple(observers), tape)


def check_different(paths: Mapping[str, Path | None]) -> None:
    """By option. Raises ConfigError."""
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is not None and (other := seen.setdefault(path, option)) != option:
            raise ConfigError(f"{other} and {option} name the same file", field=option)
