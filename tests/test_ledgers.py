"""Ledgers as JSON lines: literal times in, literal lines out; no words, no sound."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from voicepipe.core.budget import Ledger
from voicepipe.core.events import Load, Stage, Timing, TurnRecord, Waits, Work, WorkClass, WorkKind
from voicepipe.errors import ConfigError
from voicepipe.ledgers import LedgerWriter, chunk_entry, turn_entry

SPEAK = Work(7, "s1", 1, 2, 3, WorkKind.SPEAK, WorkClass.STARTED, deadline=100.19, bound_s=0.05)


def missed() -> TurnRecord:
    """Its voice waited 120 ms for a chunk of a lower class."""
    one = Ledger(1, budget_s=0.2, downlink_s=0.01)
    one.on_soft_end(100.0, 100.03)
    one.on_predicted(Stage.LLM, 0.07, 100.03)
    one.on_reply_begun(100.03)
    one.on_service(Stage.LLM, Timing(100.03, 100.03, 100.06), Waits())
    one.on_llm_first(100.05)
    one.on_answer_first(100.05)
    one.on_clause(100.06)
    one.on_rung("short_clause")
    one.on_commit(100.13)
    one.on_service(Stage.TTS, Timing(100.06, 100.18, 100.21), Waits(lower_s=0.12, background_s=0.07))
    one.on_audio(100.21)
    one.on_sent(100.212)
    return one.record(now=102.0)


def test_a_turns_line() -> None:
    """Everything counts from the speech end, in milliseconds; parts sum up to the overrun."""
    entry = json.loads(json.dumps(turn_entry("s1", missed())))
    assert entry == {
        "session": "s1",
        "turn": 1,
        "verdict": "missed",
        "reason": None,
        "budget_ms": 200.0,
        "felt_estimate_ms": 222.0,
        "system_ms": 82.0,
        "speech_end": 100.0,
        "deadline_ms": 190.0,
        "instants": {
            "speech_end": 0.0,
            "soft_end": 30.0,
            "eager": 30.0,
            "commit": 130.0,
            "asr_final": None,
            "llm_first": 50.0,
            "answer_first": 50.0,
            "clause": 60.0,
            "audio": 210.0,
            "acknowledged": None,
            "sent": 212.0,
            "heard": None,
            "ended": 2000.0,
        },
        "stages": {
            "endpoint": {"wait_ms": 30.0, "service_ms": 0.0},
            "asr": {"wait_ms": 0.0, "service_ms": 0.0},
            "llm": {"wait_ms": 0.0, "service_ms": 30.0},
            "tts": {"wait_ms": 120.0, "service_ms": 30.0},
            "send": {"wait_ms": 12.0, "service_ms": 0.0},
        },
        "parts": [
            {"stage": "endpoint", "kind": "endpoint", "ms": 30.0},
            {"stage": "llm", "kind": "service", "ms": 30.0},
            {"stage": "tts", "kind": "service", "ms": 30.0},
            {"stage": "tts", "kind": "blocking", "ms": 120.0},
            {"stage": "send", "kind": "wait", "ms": 2.0},
            {"stage": "send", "kind": "client", "ms": 10.0},
        ],
        "blocked_by": {"background": 70.0},
        "blame": {
            "stage": "tts",
            "kind": "blocking",
            "ms": 120.0,
            "overrun_ms": 22.0,
            "parts": [
                {"stage": "endpoint", "kind": "unused", "ms": -35.0},
                {"stage": "asr", "kind": "unused", "ms": -25.0},
                {"stage": "llm", "kind": "unused", "ms": -15.0},
                {"stage": "tts", "kind": "blocking", "ms": 120.0},
                {"stage": "tts", "kind": "unused", "ms": -10.0},
                {"stage": "send", "kind": "wait", "ms": 2.0},
                {"stage": "send", "kind": "unused", "ms": -15.0},
            ],
            "unattributed_ms": 0,
        },
        "speculation": {"hit": True, "attempts": 1, "saved_ms": 0.0, "wasted_ms": 0.0},
        "slack": [{"stage": "llm", "at_ms": 30.0, "slack_ms": 90.0, "predicted_finish_ms": 100.0}],
        "rungs": ["short_clause"],
        "reopened": 0,
        "stalled_ms": 0.0,
    }


def test_a_turn_without_a_speech_end_has_no_times() -> None:
    """It failed while the user spoke: there is nothing to count from."""
    one = Ledger(4, 0.2, 0.01)
    one.on_failed("engine_timeout")
    entry = turn_entry("s1", one.record(now=3.0))
    assert entry["reason"] == "engine_timeout"
    assert (entry["verdict"], entry["felt_estimate_ms"], entry["speech_end"]) == ("failed", None, None)
    assert set(entry["instants"].values()) == {None}
    assert (entry["blame"], entry["parts"], entry["deadline_ms"]) == (None, [], None)


UNPRICED = {"bound": None, "remaining": 0.0, "model": None, "variant": None, "units": None, "context": None}
PRICED = {"bound": 0.05, "remaining": 0.1, "model": "joe", "variant": "first", "units": 12, "context": 0.0}


@pytest.mark.parametrize("priced", [True, False])
def test_a_chunks_line(priced: bool) -> None:
    """Scheduler times as they are; a bound, and what it was for, only where one was declared."""
    work = Work(7, "s1", 1, 2, 3, WorkKind.SPEAK, WorkClass.SPECULATION)
    if priced:
        work = replace(work, bound_s=0.05, remaining_s=0.1, load=Load("joe", 12, variant="first"))
    assert chunk_entry(work, Timing(1.0, 1.5, 2.0), "tts") == {
        "chunk": "speak",
        "class": "speculation",
        "session": "s1",
        "turn": 1,
        "epoch": 2,
        "revision": 3,
        "lane": "tts",
        "queued": 1.0,
        "started": 1.5,
        "finished": 2.0,
        "whole": True,
        **(PRICED if priced else UNPRICED),
    }


def test_the_file_has_a_line_per_chunk_and_turn(tmp_path: Path) -> None:
    """In the order in which they ended."""
    path = tmp_path / "ledger.jsonl"
    path.write_text("of an earlier run\n")
    writer = LedgerWriter(path)
    writer.on_chunk(SPEAK, Timing(100.06, 100.18, 100.21), "tts")
    writer.on_record("s1", missed())
    writer.close()
    chunk, turn = map(json.loads, path.read_text().splitlines())
    assert chunk == chunk_entry(SPEAK, Timing(100.06, 100.18, 100.21), "tts")
    assert turn == json.loads(json.dumps(turn_entry("s1", missed())))
    assert (writer.error, writer.lost) == (None, 0)


def test_the_option_is_named_where_the_file_cannot_be_written(tmp_path: Path) -> None:
    """Before anything is loaded."""
    with pytest.raises(ConfigError, match="--ledger"):
        LedgerWriter(tmp_path)
