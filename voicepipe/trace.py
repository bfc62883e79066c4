"""Chunks and turns as a trace that Perfetto opens: the array form of Chrome's trace events.

That form may lack its closing bracket: a file is good up to the moment at which its process was killed. There is a
row for each chunk that a lane runs at a time, a row for each session with its turns, their stages and marks, and an
arrow from where a turn asked for a chunk to where it ran. Times are scheduler times in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from voicepipe.core.events import Timing, TurnRecord, Work
from voicepipe.filing import Writer
from voicepipe.ledgers import Entry, as_ms, blame_entry, marks_of

MAX_ROWS = 1024
"""Sessions that have a row of their own at a time; with more, the oldest ones' rows end."""

_DEVICE, _SESSIONS = 1, 2
"""Process numbers: the two groups of rows."""


@dataclass(slots=True)
class _Row:
    """A session's."""

    tid: int
    recorded: int = 0
    """Its newest turn that has ended."""
    since: int | None = None
    """When the present turn first asked for a chunk, in microseconds."""
    until: int = 0
    """The end of its last slice."""


class TraceWriter(Writer):
    """Trace events, for chunks and turns as they end. All state behind `on_` belongs to the writer's thread."""

    def __init__(self, path: Path) -> None:
        """Replaces the file. Raises ConfigError where it cannot be written."""
        named = [_name("process_name", _DEVICE, 0, "device"), _name("process_name", _SESSIONS, 0, "sessions")]
        super().__init__(path, "--trace", b"[\n" + b",\n".join(map(msgspec.json.encode, named)), b"\n]\n")
        self._lanes: dict[str, list[tuple[int, int]]] = {}
        """(tid, end of its last slice) of every row of a lane."""
        self._sessions: dict[str, _Row] = {}
        self._tids = 0
        self._arrows = 0

    def on_chunk(self, work: Work, timing: Timing, lane: str) -> None:
        self._file.put(lambda: _joined(self._chunk(work, timing, lane)))

    def on_record(self, session: str, record: TurnRecord) -> None:
        self._file.put(lambda: _joined(self._turn(session, record)))

    def _chunk(self, work: Work, timing: Timing, lane: str) -> list[Entry]:
        begin, end = _us(timing.started), _us(timing.finished)
        events: list[Entry] = []
        tid = self._lane_row(lane, begin, end, events)
        args = {
            "session": work.session,
            "turn": work.turn,
            "epoch": work.epoch,
            "revision": work.revision,
            "waited_ms": as_ms(timing.wait_s),
            "bound_ms": as_ms(work.bound_s or None),
        }
        events.append(_slice(work.kind.value, work.klass.name.lower(), _DEVICE, tid, begin, end, args))
        row = self._session_row(work.session, events)
        if work.turn > row.recorded:  # an arrow needs a slice at both of its ends; those of ended turns are written
            queued = _us(timing.queued)
            row.since = queued if row.since is None else min(row.since, queued)
            self._arrows += 1
            arrow = {"cat": "chunk", "name": work.kind.value, "id": self._arrows}
            events.append({"ph": "s", "pid": _SESSIONS, "tid": row.tid, "ts": queued, **arrow})
            events.append({"ph": "f", "bp": "e", "pid": _DEVICE, "tid": tid, "ts": begin, **arrow})
        return events

    def _turn(self, session: str, record: TurnRecord) -> list[Entry]:
        events: list[Entry] = []
        row = self._session_row(session, events)
        marks = [(name, _us(at)) for name, at in marks_of(record.instants) if at is not None]
        if record.deadline is not None:
            marks.append(("deadline", _us(record.deadline)))
        stages = _stage_slices(record, row.tid)
        known = [at for name, at in marks if name != "deadline"] + [s["ts"] + s["dur"] for s in stages]
        if row.since is not None:
            known.append(row.since)
        row.recorded, row.since = max(row.recorded, record.turn), None
        if not known:  # it ended without a mark and without a chunk: there is no time to put it at
            return events
        begin = max(min(known), row.until)
        row.until = max(*known, begin)
        args = {
            "verdict": record.verdict.value,
            "reason": record.reason,
            "felt_ms": as_ms(record.felt_estimate_s),
            "budget_ms": as_ms(record.budget_s),
            "blame": None if record.blame is None else blame_entry(record.blame),
            "rungs": list(record.rungs),
        }
        name = f"turn {record.turn}: {record.verdict}"
        events.append(_slice(name, "turn", _SESSIONS, row.tid, begin, row.until, args))
        events += stages
        events += [
            {"ph": "i", "s": "t", "cat": "mark", "name": name, "pid": _SESSIONS, "tid": row.tid, "ts": at}
            for name, at in marks
        ]
        return events

    def _lane_row(self, lane: str, begin: int, end: int, events: list[Entry]) -> int:
        """Chunks come in the order in which they end: one fits on a row whose last one had ended when it began."""
        rows = self._lanes.setdefault(lane, [])
        for index, (tid, until) in enumerate(rows):
            if until <= begin:
                rows[index] = (tid, end)
                return tid
        self._tids += 1
        rows.append((self._tids, end))
        name = lane if len(rows) == 1 else f"{lane} #{len(rows)}"
        events.append(_name("thread_name", _DEVICE, self._tids, name))
        return self._tids

    def _session_row(self, session: str, events: list[Entry]) -> _Row:
        row = self._sessions.get(session)
        if row is None:
            if len(self._sessions) == MAX_ROWS:
                del self._sessions[next(iter(self._sessions))]
            self._tids += 1
            row = self._sessions[session] = _Row(self._tids)
            events.append(_name("thread_name", _SESSIONS, row.tid, session))
        return row


def _stage_slices(record: TurnRecord, tid: int) -> list[Entry]:
    """The critical path, from the speech end on; stages that take no time have none."""
    at = record.instants.speech_end
    slices: list[Entry] = []
    if at is None:
        return slices
    for stage, share in record.stages.items():
        begin, at = at, at + share.wait_s + share.service_s
        if _us(at) > _us(begin):
            split = {part.kind.value: as_ms(part.seconds) for part in record.parts if part.stage is stage}
            slices.append(_slice(stage.value, "stage", _SESSIONS, tid, _us(begin), _us(at), split))
    return slices


def _slice(name: str, cat: str, pid: int, tid: int, begin: int, end: int, args: Entry) -> Entry:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": begin,
        "dur": end - begin,
        "args": args,
    }


def _name(kind: str, pid: int, tid: int, name: str) -> Entry:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _us(at: float) -> int:
    """Both ends of a slice are rounded, not its length: slices that touch do not come to overlap."""
    return round(1e6 * at)


def _joined(events: list[Entry]) -> bytes:
    """Separators come first, so that a file without its end lacks nothing but the bracket."""
    return b"".join(b",\n" + msgspec.json.encode(event) for event in events)
