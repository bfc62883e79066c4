"""Recording: what goes in and what comes out, in order, and the component behaves as without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from voicepipe import __version__
from voicepipe.core.events import Line, Onset, Timing, TurnCommand, Work, WorkClass, WorkKind
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import ReplySettings
from voicepipe.core.scheduler import Run, Scheduler
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import TurnSettings
from voicepipe.device import Device
from voicepipe.errors import ConfigError
from voicepipe.recording import RecordingWriter, Tape
from voicepipe.services import Services
from voicepipe.tape import VERSION

SETTINGS = TurnSettings(ReplySettings(PlayoutSettings(24_000)), OPERATING_POINTS["fast"], "Be brief.")
PLACEMENT = dict.fromkeys(WorkKind, "main")
FINAL = Work(3, "s1", 1, 1, 0, WorkKind.FINAL, WorkClass.STARTED)


class Entries:
    """A tape in memory."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], bytes]] = []
        self.tape = Tape(self.waiting.append)

    def read(self) -> list[dict[str, Any]]:
        """Formatted only now, as a writer's thread would do it."""
        return [json.loads(entry()) for entry in self.waiting]


def typed_turn(turns: Turns) -> list[list[TurnCommand]]:
    """Something that draws ids, and a late answer that does not."""
    late = Timing(1.0, 1.0, 1.1)
    return [
        turns.on_opened(1.0),
        turns.on_text("Hello.", 1.5),
        turns.on_transcript(FINAL, "", "", 0, late, 1.6),
        turns.on_cancel(1.75),
    ]


def test_each_input_is_an_entry_with_its_answer() -> None:
    """Settings first; the arguments by name, `now` beside them; the ids that were drawn; the commands."""
    entries = Entries()
    typed_turn(entries.tape.turns("s1", SETTINGS, count(1)))
    made, opened, text, late, cancel = entries.read()
    assert (made["entry"], made["n"], made["name"], made["component"]) == ("made", 1, "s1", "Turns")
    assert made["args"]["session"] == "s1"
    assert made["args"]["settings"]["TurnSettings"]["instructions"] == "Be brief."
    assert [entry["n"] for entry in (opened, text, late, cancel)] == [2, 3, 4, 5]
    assert {entry["to"] for entry in (opened, text, late, cancel)} == {"s1"}
    assert (opened["on"], opened["now"], opened["ids"]) == ("on_opened", 1.0, [1]) and "args" not in opened
    assert text["args"] == {"text": "Hello."} and text["ids"] == [2]
    assert [name for command in text["out"] for name in command] == [
        "FinalTranscript",
        "Committed",
        "Withdraw",
        "Submit",
    ]
    assert late["args"]["work"]["Work"]["kind"] == "final" and "ids" not in late and late["out"] == []
    assert [name for command in cancel["out"] for name in command] == ["ReplyInterrupted", "Retire", "TurnEnded"]


def test_a_recorded_component_answers_as_ever() -> None:
    """The same commands, the same questions answered, the same timer."""
    plain, recorded = Turns("s1", SETTINGS, count(1)), Entries().tape.turns("s1", SETTINGS, count(1))
    assert typed_turn(plain) == typed_turn(recorded)
    plain.on_line(Line("user", "Hi."))
    recorded.on_line(Line("user", "Hi."))
    assert recorded.snapshot() == plain.snapshot() and recorded.epoch == plain.epoch == 2
    assert recorded.next_deadline() == plain.next_deadline()
    assert recorded.span() == plain.span()


def test_ids_that_others_draw_are_not_its_own() -> None:
    """The session draws from the same numbers."""
    entries, serial = Entries(), count(1)
    turns = entries.tape.turns("s1", SETTINGS, serial)
    turns.on_opened(1.0)
    assert next(serial) == 2
    turns.on_text("Hello.", 1.5)
    _, opened, text = entries.read()
    assert (opened["ids"], text["ids"]) == ([1], [3])


def test_the_scheduler_is_recorded_too() -> None:
    """With what was left to its default, on both sides; what it calls on itself is no input."""
    entries = Entries()
    scheduler = entries.tape.scheduler(PLACEMENT, {"main": 1})
    assert scheduler.on_submit(FINAL, 1.0) == [Run(FINAL, "main")]
    assert scheduler.on_done(FINAL, 1.25) == []
    scheduler.on_close("s1", 1.5)
    assert scheduler.snapshot().lanes["main"].served == 1
    made, submit, done, close = entries.read()
    assert made["args"] == {
        "placement": PLACEMENT,
        "capacity": {"main": 1},
        "max_queued": 4096,
        "pool": "dedicated",
    }
    run = {"lane": "main", "blocked_s": 0.0, "background_s": 0.0, "others": []}
    assert submit["out"] == [{"Run": {"work": submit["args"]["work"]["Work"], **run}}]
    assert done["args"]["service_s"] is None
    assert (close["on"], close["args"]) == ("on_close", {"session": "s1"})


def test_both_share_one_order() -> None:
    """Entries are numbered through, whoever they are for."""
    entries = Entries()
    scheduler = entries.tape.scheduler(PLACEMENT, {"main": 1})
    turns = entries.tape.turns("s1", SETTINGS, count(1))
    turns.on_opened(1.0)
    scheduler.on_timer(1.0)
    turns.on_timer(1.0)
    assert [(entry["n"], entry.get("to", "made")) for entry in entries.read()] == [
        (1, "made"),
        (2, "made"),
        (3, "s1"),
        (4, "scheduler"),
        (5, "s1"),
    ]


def test_an_input_that_gives_nothing_back_is_recorded_without_commands() -> None:
    entries = Entries()
    entries.tape.turns("s1", SETTINGS, count(1)).on_shed(True)
    assert entries.read()[1] == {
        "entry": "input",
        "n": 2,
        "to": "s1",
        "on": "on_shed",
        "args": {"shed": True},
    }


def test_what_core_raises_is_recorded_and_raised() -> None:
    """A fault of ours can be looked at afterwards."""
    entries = Entries()
    scheduler = entries.tape.scheduler(PLACEMENT, {"main": 1})
    with pytest.raises(KeyError):
        scheduler.on_done(FINAL, 1.0)
    entry = entries.read()[1]
    assert (entry["on"], entry["raised"]) == ("on_done", "KeyError") and "out" not in entry


def test_commands_are_kept_as_they_came() -> None:
    """Whoever carries them out may do with the list what they want."""
    entries = Entries()
    turns = entries.tape.turns("s1", SETTINGS, count(1))
    commands = turns.on_endpoint(Onset(0), 1.0, 1.0)
    names = [type(command).__name__ for command in commands]
    commands.clear()
    assert [name for command in entries.read()[1]["out"] for name in command] == names != []


def test_the_file_says_first_that_it_holds_words(tmp_path: Path) -> None:
    """And last that it is whole."""
    path = tmp_path / "r.jsonl"
    writer = RecordingWriter(path)
    writer.tape.turns("s1", SETTINGS, count(1)).on_text("Grüße.", 1.0)
    writer.close()
    head, _, entry, end = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert (head["entry"], head["version"], head["voicepipe"]) == ("recording", VERSION, __version__)
    assert "words" in head["holds"] and "no sound" in head["holds"]
    assert entry["args"]["text"] == "Grüße." and end == {"entry": "end"}
    assert (writer.error, writer.lost) == (None, 0)


def test_sound_is_not_recorded() -> None:
    """Neither where it goes in nor where it comes out."""
    entries = Entries()
    turns = entries.tape.turns("s1", SETTINGS, count(1))
    work = None
    for command in turns.on_text("Hello.", 1.0):
        work = getattr(command, "work", work)
    assert work is not None and work.kind is WorkKind.THINK
    for command in turns.on_thought(work, "One two three four. ", True, Timing(1.0, 1.0, 1.1), 1.1):
        work = getattr(command, "work", work)
    turns.on_spoken(work, b"\x11\x22" * 480, True, Timing(1.1, 1.1, 1.2), 1.2)
    spoken = entries.read()[-1]
    assert spoken["args"]["pcm"] == {"bytes": 960}
    assert [command for command in spoken["out"] if "ReplyAudio" in command] == [
        {"ReplyAudio": {"epoch": 1, "offset": 0, "pcm": {"bytes": 960}}}
    ]


def test_the_option_is_named_where_the_file_cannot_be_written(tmp_path: Path) -> None:
    """Before anything is loaded."""
    with pytest.raises(ConfigError, match="--record"):
        RecordingWriter(tmp_path)


def test_without_a_tape_nothing_stands_between() -> None:
    """It costs nothing where it is not asked for: the classes themselves make the components."""
    assert {field.name: field.default for field in fields(Services)}["make_turns"] is Turns
    assert signature(Device).parameters["make_scheduler"].default is Scheduler
