"""Ledgers of turns and chunks as JSON lines: one object per chunk and per turn, as they end.

`queued`, `started`, `finished` and `speech_end` are scheduler times in seconds; `bound` and `remaining` (what is
predicted to follow the chunk before the first content) are in seconds, `bound` null where none was declared.
`units` and `context` say how much the chunk had to do, in the units of `core.cost.Size`; `whole` is false where it
was cut off before it was done. What ends in `_ms` is in milliseconds; `instants` (which are in milliseconds too),
`deadline_ms`, `at_ms` and `predicted_finish_ms` count from the turn's speech end, and `saved_ms` is service before
it. `reason` is why a turn was refused, or the code of the error by which it failed. Nothing in here holds what was
said, as words or as sound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from voicepipe.core.events import Blame, Instants, Part, Timing, TurnRecord, Work
from voicepipe.filing import Writer

Entry = dict[str, Any]


class LedgerWriter(Writer):
    """One JSON object per line, for chunks and turns as they end."""

    def __init__(self, path: Path) -> None:
        """Replaces the file. Raises ConfigError where it cannot be written."""
        super().__init__(path, "--ledger")

    def on_chunk(self, work: Work, timing: Timing, lane: str) -> None:
        self._file.put(lambda: _line(chunk_entry(work, timing, lane)))

    def on_record(self, session: str, record: TurnRecord) -> None:
        self._file.put(lambda: _line(turn_entry(session, record)))


def chunk_entry(work: Work, timing: Timing, lane: str) -> Entry:
    load = work.load
    return {
        "chunk": work.kind.value,
        "class": work.klass.name.lower(),
        "session": work.session,
        "turn": work.turn,
        "epoch": work.epoch,
        "revision": work.revision,
        "lane": lane,
        "queued": timing.queued,
        "started": timing.started,
        "finished": timing.finished,
        "bound": work.bound_s or None,
        "remaining": work.remaining_s,
        "whole": timing.whole,
        "model": None if load is None else load.model,
        "variant": None if load is None else load.variant,
        "units": None if load is None else load.units,
        "context": None if load is None else load.context,
    }


def turn_entry(session: str, record: TurnRecord) -> Entry:
    speech_end = record.instants.speech_end
    since_ms = partial(_since_ms, speech_end)
    ahead = record.speculation
    return {
        "session": session,
        "turn": record.turn,
        "verdict": record.verdict.value,
        "reason": record.reason,
        "budget_ms": as_ms(record.budget_s),
        "felt_estimate_ms": as_ms(record.felt_estimate_s),
        "system_ms": as_ms(record.system_s),
        "speech_end": speech_end,
        "deadline_ms": since_ms(record.deadline),
        "instants": {name: since_ms(at) for name, at in marks_of(record.instants)},
        "stages": {
            stage.value: {"wait_ms": as_ms(share.wait_s), "service_ms": as_ms(share.service_s)}
            for stage, share in record.stages.items()
        },
        "parts": _parts(record.parts),
        "blocked_by": {"background": as_ms(record.background_s)},
        "blame": None if record.blame is None else blame_entry(record.blame),
        "speculation": {
            "hit": ahead.hit,
            "attempts": ahead.attempts,
            "saved_ms": as_ms(ahead.saved_s),
            "wasted_ms": as_ms(ahead.wasted_s),
        },
        "slack": [
            {
                "stage": forecast.stage.value,
                "at_ms": since_ms(forecast.at),
                "slack_ms": as_ms(forecast.slack_s),
                "predicted_finish_ms": since_ms(forecast.finish),
            }
            for forecast in record.forecasts
        ],
        "rungs": list(record.rungs),
        "reopened": record.reopened,
        "stalled_ms": as_ms(record.stalled_s),
    }


def blame_entry(blame: Blame) -> Entry:
    return {
        "stage": blame.stage.value,
        "kind": blame.kind.value,
        "ms": as_ms(blame.over_s),
        "overrun_ms": as_ms(blame.overrun_s),
        "parts": _parts(blame.parts),
        "unattributed_ms": as_ms(blame.unattributed_s),
    }


def _parts(parts: Iterable[Part]) -> list[Entry]:
    return [{"stage": part.stage.value, "kind": part.kind.value, "ms": as_ms(part.seconds)} for part in parts]


def marks_of(instants: Instants) -> list[tuple[str, float | None]]:
    return [(mark.name, getattr(instants, mark.name)) for mark in fields(instants)]


def as_ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)


def _since_ms(origin: float | None, at: float | None) -> float | None:
    return None if origin is None or at is None else as_ms(at - origin)


def _line(entry: Entry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"
