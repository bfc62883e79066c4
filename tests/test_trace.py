"""The trace: valid JSON at any moment, rows whose slices do not overlap, arrows that end where chunks begin."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from voicepipe import trace
from voicepipe.core.budget import Ledger
from voicepipe.core.events import Stage, Timing, TurnRecord, Waits, Work, WorkClass, WorkKind
from voicepipe.errors import ConfigError
from voicepipe.trace import TraceWriter

Event = dict[str, Any]


def work(kind: WorkKind, turn: int, session: str = "s1", bound_s: float = 0.0) -> Work:
    return Work(1, session, turn, 1, 0, kind, WorkClass.STARTED, bound_s=bound_s)


def answered(turn: int, at: float) -> TurnRecord:
    """Speech ends at `at`; 150 ms later there is sound, two seconds later it has been heard."""
    one = Ledger(turn, budget_s=0.2, downlink_s=0.01)
    one.on_soft_end(at, at + 0.03)
    one.on_reply_begun(at + 0.03)
    one.on_service(Stage.LLM, Timing(at + 0.03, at + 0.04, at + 0.08), Waits(others_s=0.01))
    one.on_clause(at + 0.08)
    one.on_commit(at + 0.1)
    one.on_service(Stage.TTS, Timing(at + 0.08, at + 0.08, at + 0.13), Waits())
    one.on_audio(at + 0.13)
    one.on_sent(at + 0.14)
    return one.record(now=at + 2.0)


def play(writer: TraceWriter, at: float = 100.0) -> None:
    """Two sessions on three lanes, one of which runs two chunks at a time; turns follow each other."""
    for n, (session, turn, t) in enumerate([("s1", 1, at), ("s2", 1, at + 0.01), ("s1", 2, at + 3.0)]):
        writer.on_chunk(work(WorkKind.HEAR, 0, session), Timing(t - 0.2, t - 0.2, t - 0.19), "vad")
        writer.on_chunk(work(WorkKind.PARTIAL, turn, session), Timing(t - 0.1, t - 0.1 + n / 50, t), "asr")
        writer.on_chunk(work(WorkKind.THINK, turn, session), Timing(t + 0.03, t + 0.04, t + 0.08), "llm")
        writer.on_chunk(work(WorkKind.SPEAK, turn, session, 0.06), Timing(t + 0.08, t + 0.08, t + 0.13), "llm")
        writer.on_record(session, answered(turn, t))


def played(path: Path) -> list[Event]:
    writer = TraceWriter(path)
    play(writer)
    writer.close()
    assert (writer.error, writer.lost) == (None, 0)
    events: list[Event] = json.loads(path.read_text())
    return events


def of(events: list[Event], **wanted: object) -> list[Event]:
    return [event for event in events if all(event.get(key) == value for key, value in wanted.items())]


def slices(events: list[Event]) -> dict[tuple[int, int, str], list[tuple[int, int]]]:
    """(begin, end) by row and, on a session's row, by level."""
    found: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
    for event in of(events, ph="X"):
        level = event["cat"] if event["pid"] == 2 else ""
        key = event["pid"], event["tid"], level
        found.setdefault(key, []).append((event["ts"], event["ts"] + event["dur"]))
    return found


def test_slices_of_a_row_do_not_overlap(tmp_path: Path) -> None:
    """A lane that runs two chunks at a time has two rows; a session's turns follow each other, and so do the
    stages inside them."""
    rows = slices(played(tmp_path / "t.json"))
    assert len(rows) == 5 + 4  # vad, asr twice, llm twice; two sessions, turns and stages
    for row in rows.values():
        for (_, end), (begin, _) in pairwise(sorted(row)):
            assert end <= begin
    for tid in {tid for pid, tid, _ in rows if pid == 2}:
        turns = rows[2, tid, "turn"]
        assert all(any(b <= begin and end <= e for b, e in turns) for begin, end in rows[2, tid, "stage"])


def test_rows_are_named_after_lanes_and_sessions(tmp_path: Path) -> None:
    """Each of them once."""
    events = played(tmp_path / "t.json")
    names = [(event["pid"], event["args"]["name"]) for event in of(events, ph="M", name="thread_name")]
    assert sorted(names) == [(1, "asr"), (1, "asr #2"), (1, "llm"), (1, "llm #2"), (1, "vad"), (2, "s1"), (2, "s2")]
    processes = of(events, ph="M", name="process_name")
    assert [(event["pid"], event["args"]["name"]) for event in processes] == [(1, "device"), (2, "sessions")]


def test_a_turn_spans_from_its_first_chunk_to_its_end(tmp_path: Path) -> None:
    """With the verdict in its name, its stages from the speech end on, and its marks."""
    events = played(tmp_path / "t.json")
    first = of(events, cat="turn")[0]
    assert first["name"] == "turn 1: met"
    assert (first["ts"], first["dur"]) == (99_900_000, 2_100_000)
    nothing = {"reason": None, "blame": None, "rungs": []}
    assert first["args"] == {"verdict": "met", "felt_ms": 150.0, "budget_ms": 200.0, **nothing}
    stages = [(s["name"], s["ts"], s["dur"]) for s in of(events, cat="stage", tid=first["tid"])][:4]
    assert stages == [
        ("endpoint", 100_000_000, 30_000),
        ("llm", 100_030_000, 50_000),
        ("tts", 100_080_000, 50_000),
        ("send", 100_130_000, 20_000),
    ]
    assert of(events, cat="stage", name="llm")[0]["args"] == {"wait": 10.0, "service": 40.0}
    marks = {m["name"]: m["ts"] for m in of(events, ph="i", tid=first["tid"]) if m["ts"] < 103_000_000}
    assert marks == {
        "speech_end": 100_000_000,
        "soft_end": 100_030_000,
        "eager": 100_030_000,
        "commit": 100_100_000,
        "clause": 100_080_000,
        "audio": 100_130_000,
        "sent": 100_140_000,
        "ended": 102_000_000,
        "deadline": 100_190_000,
    }


def test_an_arrow_leads_from_the_turn_to_each_of_its_chunks(tmp_path: Path) -> None:
    """Forward in time, from a turn's slice to the very beginning of a chunk's; the frames that the VAD hears
    belong to no turn."""
    events = played(tmp_path / "t.json")
    starts, ends = of(events, ph="s"), of(events, ph="f")
    assert len(starts) == len(ends) == 9
    turns = slices(events)
    for start, end in zip(starts, ends, strict=True):
        assert start["id"] == end["id"]
        assert start["ts"] <= end["ts"]
        assert any(b <= start["ts"] <= e for b, e in turns[2, start["tid"], "turn"])
        assert any(b == end["ts"] for b, _ in turns[1, end["tid"], ""])
    assert len({start["id"] for start in starts}) == 9


def test_a_chunk_says_what_it_was(tmp_path: Path) -> None:
    """Class as category; whose it was, what it waited, what it had declared."""
    (speak, *_) = of(played(tmp_path / "t.json"), name="speak", ph="X")
    assert (speak["cat"], speak["ts"], speak["dur"]) == ("started", 100_080_000, 50_000)
    assert speak["args"] == {
        "session": "s1",
        "turn": 1,
        "epoch": 1,
        "revision": 0,
        "waited_ms": 0.0,
        "bound_ms": 60.0,
    }


def test_a_turn_without_content_has_no_stages(tmp_path: Path) -> None:
    """Only what is known of it: here its end, and where it first asked for a chunk."""
    path = tmp_path / "t.json"
    writer = TraceWriter(path)
    writer.on_chunk(work(WorkKind.PARTIAL, 1), Timing(5.0, 5.1, 5.2), "asr")
    writer.on_record("s1", Ledger(1, 0.2, 0.01).record(empty=True, now=6.0))
    writer.on_chunk(work(WorkKind.PARTIAL, 1), Timing(5.9, 6.0, 6.1), "asr")  # ended after its turn
    writer.close()
    events = json.loads(path.read_text())
    (turn,) = of(events, cat="turn")
    assert (turn["name"], turn["ts"], turn["dur"]) == ("turn 1: empty", 5_000_000, 1_000_000)
    assert of(events, cat="stage") == []
    assert len(of(events, ph="s")) == 1


def test_a_turn_of_which_no_time_is_known_is_left_out(tmp_path: Path) -> None:
    """There is nowhere to put it."""
    path = tmp_path / "t.json"
    writer = TraceWriter(path)
    writer.on_record("s1", Ledger(1, 0.2, 0.01).record())
    writer.close()
    assert of(json.loads(path.read_text()), cat="turn") == []


def test_a_turn_does_not_reach_back_into_the_one_before(tmp_path: Path) -> None:
    """Its first chunk was asked for while the sound of the reply before was still on its way."""
    path = tmp_path / "t.json"
    writer = TraceWriter(path)
    writer.on_record("s1", answered(1, 10.0))
    writer.on_chunk(work(WorkKind.PARTIAL, 2), Timing(11.9, 12.1, 12.2), "asr")
    writer.on_record("s1", answered(2, 13.0))
    writer.close()
    first, second = of(json.loads(path.read_text()), cat="turn")
    assert first["ts"] + first["dur"] == second["ts"] == 12_000_000


def test_a_session_too_many_ends_the_oldest_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered is bounded, and what was written stays."""
    monkeypatch.setattr(trace, "MAX_ROWS", 2)
    path = tmp_path / "t.json"
    writer = TraceWriter(path)
    for n in range(3):
        writer.on_record(f"s{n}", answered(1, 10.0))
    assert writer._sessions.keys() <= {"s0", "s1", "s2"}
    writer.close()
    assert writer._sessions.keys() == {"s1", "s2"}
    assert len(of(json.loads(path.read_text()), cat="turn")) == 3


def test_a_killed_process_leaves_a_trace_that_lacks_only_its_bracket(tmp_path: Path) -> None:
    """The array form: readers of it do not ask for the end."""
    path = tmp_path / "t.json"
    code = f"""
        import os, signal, sys
        from pathlib import Path
        from tests.test_trace import play
        from voicepipe.trace import TraceWriter
        path = Path({str(path)!r})
        writer = TraceWriter(path)
        play(writer)
        while b"turn 2" not in path.read_bytes():
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    """
    root = Path(__file__).parent.parent
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=root, timeout=60, check=False)
    assert process.returncode == -9
    text = path.read_text()
    assert text.startswith("[\n") and not text.rstrip().endswith("]")
    assert len(of(json.loads(text + "]"), cat="turn")) == 3


def test_the_option_is_named_where_the_file_cannot_be_written(tmp_path: Path) -> None:
    """Before anything is loaded."""
    with pytest.raises(ConfigError, match="--trace"):
        TraceWriter(tmp_path)
