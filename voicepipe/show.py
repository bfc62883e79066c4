"""What `talk` and `demo` print while a conversation goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TextIO

import msgspec

from voicepipe.audio import AUDIBLE_DBFS
from voicepipe.errors import Refused, VoicepipeError
from voicepipe.waterfall import turn_lines
from voicepipe.wire import messages as wire
from voicepipe_client import Disconnected, Event, Reconnected, TurnRecord, refused_summary


class Reporter(Protocol):
    """Hears of everything, and prints what its readers want."""

    def say(self, text: str) -> None: ...
    def on_waiting(self, position: int) -> None: ...
    def on_ready(self, ready: wire.SessionReady) -> None: ...
    def on_event(self, event: Event, now: float) -> None: ...
    def on_turn(self, record: TurnRecord) -> None: ...
    def on_end(self, summary: Mapping[str, object], written: Path | None) -> None: ...
    def on_no_session(self, error: VoicepipeError | None) -> None:
        """None came about, because of `error` or, None, because it was interrupted. After `on_end`, when it is the
        error of a session that there was, it says nothing new."""
        ...


class JsonLines:
    """For machines: one object per turn, the summary last, and nothing else. What went wrong is told to people
    as well, on `err`."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._has_ended = False

    def say(self, text: str) -> None:
        """Machines do not read it."""

    def on_waiting(self, position: int) -> None:
        _complain(self._err, waiting_text(position))

    def on_ready(self, ready: wire.SessionReady) -> None:
        """Nothing of it belongs to a turn."""

    def on_event(self, event: Event, now: float) -> None:
        """The turn's record holds what is left of it, except of an error and of the connection."""
        match event:
            case wire.Error():
                _complain(self._err, f"server: {error_text(event)}")
            case Disconnected() | Reconnected():
                _complain(self._err, connection_text(event))

    def on_turn(self, record: TurnRecord) -> None:
        self._print(record.as_dict())

    def on_end(self, summary: Mapping[str, object], written: Path | None) -> None:
        for line in unsaid_lines(summary):
            _complain(self._err, line)
        self._print({"summary": {**summary, "out": None if written is None else str(written)}})
        self._has_ended = True

    def on_no_session(self, error: VoicepipeError | None) -> None:
        if not self._has_ended:
            self._print({"summary": _no_session(error)})
            self._has_ended = True

    def _print(self, value: Mapping[str, object]) -> None:
        self._out.write(json.dumps(value) + "\n")
        self._out.flush()


class Display:
    """For people. Partials redraw one line on a terminal; elsewhere only what is final is printed. What is no part
    of the conversation goes to `err`."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._live = out.isatty()
        self._drawn = 0
        self._in_reply = False
        self._budget_ms = 0.0

    def say(self, text: str) -> None:
        self._line(text)

    def on_waiting(self, position: int) -> None:
        _complain(self._err, waiting_text(position))

    def on_ready(self, ready: wire.SessionReady) -> None:
        self._budget_ms = ready.budget_ms

    def on_end(self, summary: Mapping[str, object], written: Path | None) -> None:
        unsaid = unsaid_lines(summary)
        for line in unsaid:
            self._line(line)
        if not unsaid and summary["turns"] == 0:
            self._no_turn(summary["ended"])
        self._drained(summary)
        if written is not None:
            self._line(f"the replies are in {written}")

    def _no_turn(self, ended: object) -> None:
        """Of a session that was lost or failed the error tells, which comes next."""
        if ended == "interrupted":
            self._line("interrupted")
        elif ended == "done":
            self._line("no turn: nothing was said, or nothing was heard in it")

    def _drained(self, summary: Mapping[str, object]) -> None:
        """Where something was left unanswered the error tells, which comes next."""
        error = summary.get("error")
        if summary["ended"] == "drained" and not summary["open_turns"] and not summary["unheard_clips"]:
            assert isinstance(error, Mapping)
            self._line(str(error["message"]))

    def on_no_session(self, error: VoicepipeError | None) -> None:
        """The error says it."""

    def on_event(self, event: Event, now: float) -> None:
        match event:
            case wire.TranscriptPartial(_, stable, tentative) if self._live:
                self._redraw(f"you: {stable} ({tentative})" if tentative else f"you: {stable}")
            case wire.TranscriptFinal(_, text):
                self._line(f"you: {text}")
            case wire.ReplyText(_, _, text):
                self._write(text if self._in_reply else f"bot: {text}")
                self._in_reply = True
            case wire.TurnReopened():
                self._line("(you went on: that answer was withdrawn)")
            case wire.ReplyInterrupted(_, _, heard_ms):
                self._line(f"(interrupted after {heard_ms / 1000:.1f} s)")
            case wire.Error():
                self._line(f"error {error_text(event)}")
            case wire.Draining(deadline_ms):
                self._line(f"(the server goes away in {deadline_ms / 1000:.0f} s)")
            case Disconnected() | Reconnected():
                self._line(f"({connection_text(event)})")

    def on_turn(self, record: TurnRecord) -> None:
        for line in turn_lines(record.as_dict(), self._budget_ms):
            self._line(line)

    def _redraw(self, text: str) -> None:
        self._out.write("\r" + text.ljust(self._drawn))
        self._out.flush()
        self._drawn = len(text)

    def _write(self, text: str) -> None:
        if self._drawn:
            self._redraw("")
            self._out.write("\r")
            self._drawn = 0
        self._out.write(text)
        self._out.flush()

    def _line(self, text: str) -> None:
        if self._in_reply:
            self._out.write("\n")
            self._in_reply = False
        self._write(text + "\n")


def _no_session(error: VoicepipeError | None) -> dict[str, object]:
    if isinstance(error, Refused):
        return refused_summary(error)
    if error is None:
        return {"turns": 0, "ended": "interrupted", "error": None}
    return {"turns": 0, "ended": "failed", "error": {"code": error.code, "message": error.message}}


def _complain(err: TextIO, text: str) -> None:
    err.write(f"voicepipe: {text}\n")
    err.flush()


def waiting_text(position: int) -> str:
    """`position`: from 1 on, who is next."""
    ending = "th" if position % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"waiting for a place: {position}{ending} in line"


def connection_text(event: Disconnected | Reconnected) -> str:
    match event:
        case Disconnected(why):
            return f"{why}; trying to come back"
        case Reconnected(resumed, away_s):
            what = "the conversation goes on" if resumed else "the server has forgotten the conversation"
            return f"connected again after {away_s:.1f} s; {what}"


def error_text(event: wire.Error) -> str:
    """`code: message (field audio.rate)`: with whatever else the event carries, in one line."""
    details = {**msgspec.structs.asdict(event)}
    text = f"{details.pop('code')}: {details.pop('message')}"
    rest = ", ".join(f"{name} {value}" for name, value in details.items() if value is not None)
    whole = f"{text} ({rest})" if rest else text
    return " ".join("".join(char if char.isprintable() else " " for char in whole).split())


def unsaid_lines(summary: Mapping[str, object]) -> list[str]:
    """Names the recordings of which came no turn in which something was said, and says why."""
    done = summary.get("ended") == "done"
    lines = {
        "silent_clips": f"nobody spoke in {{}}: no sound in it is louder than {AUDIBLE_DBFS:.0f} dBFS",
        "unheard_clips": "no turn came of {}: "
        + ("there is sound in it, and the server heard no speech" if done else "it ended before that"),
        "wordless_clips": "nobody spoke in {}: the server heard sound in it, and no words",
    }
    return [line.format(names) for field, line in lines.items() if (names := _names(summary, field))]


def _names(summary: Mapping[str, object], field: str) -> str:
    names = summary.get(field, [])
    assert isinstance(names, list)
    return ", ".join(names)
