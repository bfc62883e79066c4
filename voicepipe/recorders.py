"""The files that are written while turns run, as the command line asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from voicepipe.errors import ConfigError
from voicepipe.filing import Writer
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
    writers: Mapping[str, Writer] = field(default_factory=dict)
    """By option, without its dashes."""

    def lost(self) -> dict[str, int]:
        """Entries that did not get into each file."""
        return {name: writer.lost for name, writer in self.writers.items()}


@contextmanager
def open_recorders(ledger: Path | None, trace: Path | None, record: Path | None) -> Iterator[Recorders]:
    """Opened before anything is fetched or loaded. Raises ConfigError."""
    check_different({"--ledger": ledger, "--trace": trace, "--record": record})
    with ExitStack() as stack:
        observers: list[Recorder] = []
        writers: dict[str, Writer] = {}
        if ledger is not None:
            ledgers = stack.enter_context(closing(LedgerWriter(ledger)))
            observers.append(ledgers)
            writers["ledger"] = ledgers
        if trace is not None:
            traces = stack.enter_context(closing(TraceWriter(trace)))
            observers.append(traces)
            writers["trace"] = traces
        tape = None
        if record is not None:
            recording = stack.enter_context(closing(RecordingWriter(record)))
            tape, writers["record"] = recording.tape, recording
        yield Recorders(tuple(observers), tape, writers)


def check_different(paths: Mapping[str, Path | None]) -> None:
    """By option. Raises ConfigError."""
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is not None and (other := seen.setdefault(path, option)) != option:
            raise ConfigError(f"{other} and {option} name the same file", field=option)
