"""What is printed: lines for people, objects for machines."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from voicepipe.errors import Refused, Unauthorized, VoicepipeError
from voicepipe.show import Display, JsonLines
from voicepipe.wire import messages as wire
from voicepipe_client import Disconnected, Event, Reconnected, TurnRecord

NOTHING = wire.StageTimes()
RECORD = TurnRecord(
    turn=1,
    transcript="Hello?",
    reply="Hi.",
    verdict="met",
    felt_ms=120.0,
    system_ms=3.0,
    stages=wire.Stages(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
    speculation=wire.Speculation(False, 1, 0.0, 0.0),
    blame=None,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_machines_get_one_object_per_line() -> None:
    """Turns, then the summary with the WAV's place; events print nothing."""
    out, err = io.StringIO(), io.StringIO()
    lines = JsonLines(out, err)
    lines.say("loading")
    lines.on_event(wire.TranscriptFinal(1, "Hello?"), 0.0)
    lines.on_turn(RECORD)
    lines.on_end({"turns": 1}, Path("r.wav"))
    first, last = map(json.loads, out.getvalue().splitlines())
    assert first["transcript"] == "Hello?"
    assert last == {"summary": {"turns": 1, "out": "r.wav"}}
    assert err.getvalue() == ""


def test_an_error_of_the_server_is_told_beside_the_objects() -> None:
    """One line on stderr with all that it carries; stdout holds objects only. No escape sequence comes through."""
    out, err = io.StringIO(), io.StringIO()
    JsonLines(out, err).on_event(wire.Error(code="bad_field", message="too\n long\x1b[2J", field="text"), 0.0)
    assert out.getvalue() == ""
    assert err.getvalue() == "voicepipe: server: bad_field: too long [2J (field text)\n"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Disconnected("connection lost: 1006", 1006), "connection lost: 1006; trying to come back"),
        (Reconnected(True, 0.25, 1), "connected again after 0.2 s; the conversation goes on"),
        (Reconnected(False, 3.0, 4), "connected again after 3.0 s; the server has forgotten the conversation"),
    ],
)
def test_what_becomes_of_the_connection_is_told(event: Event, said: str) -> None:
    """To people among the lines, to machines' owners beside the objects."""
    out, err, shown = io.StringIO(), io.StringIO(), io.StringIO()
    JsonLines(out, err).on_event(event, 0.0)
    Display(shown, io.StringIO()).on_event(event, 0.0)
    assert (out.getvalue(), err.getvalue(), shown.getvalue()) == ("", f"voicepipe: {said}\n", f"({said})\n")


@pytest.mark.parametrize(
    ("position", "said"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (113, "113th")],
)
def test_a_place_in_the_waiting_room_is_told_on_stderr(position: int, said: str) -> None:
    """Whatever stdout is for."""
    out, err, shown, beside = io.StringIO(), io.StringIO(), io.StringIO(), io.StringIO()
    JsonLines(out, err).on_waiting(position)
    Display(shown, beside).on_waiting(position)
    assert err.getvalue() == beside.getvalue() == f"voicepipe: waiting for a place: {said} in line\n"
    assert out.getvalue() == shown.getvalue() == ""


def test_a_recording_of_which_no_turn_came_is_named() -> None:
    """For machines in the summary and on stderr, for people among the lines; otherwise where the session ended."""
    summary = {"turns": 1, "unheard_clips": ["a.wav", "b.wav"], "ended": "done"}
    out, err, shown = io.StringIO(), io.StringIO(), io.StringIO()
    JsonLines(out, err).on_end(summary, None)
    Display(shown, io.StringIO()).on_end(summary, None)
    assert json.loads(out.getvalue())["summary"]["unheard_clips"] == ["a.wav", "b.wav"]
    said = "no turn came of a.wav, b.wav: there is sound in it, and the server heard no speech\n"
    assert (err.getvalue(), shown.getvalue()) == (f"voicepipe: {said}", said)
    lost = io.StringIO()
    Display(lost, io.StringIO()).on_end({**summary, "ended": "lost"}, None)
    assert lost.getvalue() == "no turn came of a.wav, b.wav: it ended before that\n"


@pytest.mark.parametrize(
    ("error", "summary"),
    [
        (Refused("capacity", 900), {"refused": {"reason": "capacity", "retry_after_ms": 900}}),
        (
            Unauthorized("a token is needed"),
            {"turns": 0, "ended": "failed", "error": {"code": "unauthorized", "message": "a token is needed"}},
        ),
        (None, {"turns": 0, "ended": "interrupted", "error": None}),
    ],
)
def test_machines_get_a_summary_where_there_was_no_session(
    error: VoicepipeError | None, summary: dict[str, object]
) -> None:
    """Refused, failed, or interrupted before."""
    out, err = io.StringIO(), io.StringIO()
    JsonLines(out, err).on_no_session(error)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [{"summary": summary}]
    assert err.getvalue() == ""


def test_there_is_one_summary_and_no_second_one() -> None:
    """What ends a session is in its summary, and is raised afterwards as well."""
    out = io.StringIO()
    lines = JsonLines(out, io.StringIO())
    lines.on_end({"turns": 1, "ended": "lost"}, None)
    lines.on_no_session(Refused("capacity", 900))
    assert len(out.getvalue().splitlines()) == 1


def test_a_terminal_sees_partials_change_in_place() -> None:
    """Tentative words in brackets; a shorter line wipes the longer one before it."""
    out = Terminal()
    display = Display(out, io.StringIO())
    display.on_event(wire.TranscriptPartial(1, "Hello", "there maybe"), 0.0)
    display.on_event(wire.TranscriptPartial(1, "Hello you", ""), 0.1)
    display.on_event(wire.TranscriptFinal(1, "Hello you."), 0.2)
    drawn = out.getvalue()
    assert drawn.startswith("\ryou: Hello (there maybe)\ryou: Hello you ")
    assert drawn.rstrip().endswith("you: Hello you.")


def test_elsewhere_only_what_is_final_is_printed() -> None:
    """The reply grows on one line, and whatever comes next starts on its own."""
    out = io.StringIO()
    display = Display(out, io.StringIO())
    display.on_event(wire.TranscriptPartial(1, "Hel", "lo"), 0.0)
    display.on_event(wire.TranscriptFinal(1, "Hello."), 0.1)
    display.on_event(wire.ReplyText(1, 1, "One."), 0.2)
    display.on_event(wire.ReplyText(1, 1, " Two."), 0.3)
    display.on_event(wire.ReplyInterrupted(1, 1, 1500.0), 0.4)
    display.on_event(wire.Error(code="engine_failed", message="turn 1 failed"), 0.5)
    assert out.getvalue().splitlines() == [
        "you: Hello.",
        "bot: One. Two.",
        "(interrupted after 1.5 s)",
        "error engine_failed: turn 1 failed",
    ]


def test_each_recording_in_which_nobody_spoke_is_named_with_the_reason() -> None:
    """Silence, or a noise in which there are no words; nothing general is said beside them."""
    shown = io.StringIO()
    summary = {"turns": 0, "silent_clips": ["q.wav"], "wordless_clips": ["hum.wav"], "ended": "done"}
    Display(shown, io.StringIO()).on_end(summary, None)
    assert shown.getvalue().splitlines() == [
        "nobody spoke in q.wav: no sound in it is louder than -50 dBFS",
        "nobody spoke in hum.wav: the server heard sound in it, and no words",
    ]


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        ("done", "no turn: nothing was said, or nothing was heard in it\n"),
        ("interrupted", "interrupted\n"),
        ("lost", ""),
        ("failed", ""),
    ],
)
def test_no_turn_at_all_is_said(ended: str, says: str) -> None:
    """Silence is not left unexplained; where it ended otherwise, nothing is guessed about what was said."""
    out = io.StringIO()
    Display(out, io.StringIO()).on_end({"turns": 0, "unheard_clips": [], "ended": ended}, None)
    assert out.getvalue() == says
