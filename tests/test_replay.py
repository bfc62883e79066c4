"""A recording, told to fresh components: equal where nothing was changed, and found out where something was."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests import virtual
from tests.core.test_properties import SETTINGS, Conversation
from tests.core.test_scheduler_properties import Model, Step, play, steps
from tests.driving import Caller, DictatedAsr, FaultyAsr, FaultyTts, Hang, call, engines, open_house, visit
from voicepipe.config import Config, ScriptedConfig
from voicepipe.core.events import Line, Onset, TurnCommand, WorkKind
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import TurnSettings
from voicepipe.errors import EngineUnavailable, RecordingError
from voicepipe.recording import Tape
from voicepipe.replay import Report, as_dict, as_lines, replay
from voicepipe.tape import NOTHING, VERSION, End, Head, Unlike, encode
from voicepipe.wire import messages as wire

HEAD = Head(version=VERSION, holds="words", voicepipe="0.1.0", python="3.11.7")
LONG = ScriptedConfig(
    reply="This is a long reply. It has many sentences. Each of them takes its time. So it can be interrupted."
)
PLACEMENT = dict.fromkeys(WorkKind, "main")


class Lines:
    """A whole file in memory."""

    def __init__(self) -> None:
        self._entries: list[Callable[[], bytes]] = []
        self.tape = Tape(self._entries.append)

    def read(self) -> list[bytes]:
        return [encode(HEAD), *(entry() for entry in self._entries), encode(End())]

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read()]

    def replayed(self) -> Report:
        return replay(self.read(), "r")


def agrees(lines: Lines) -> Report:
    """It must, to the last line."""
    report = lines.replayed()
    assert report.agreed and report.whole, as_lines(report)
    objects = lines.objects()
    told = [one for one in objects if one["entry"] == "input"]
    assert report.inputs == len(told) > 0
    assert report.commands == sum(len(one.get("out", ())) for one in told)
    assert report.sessions == sum(one.get("component") == "Turns" for one in objects)
    return report


def inputs(lines: Lines, to: str) -> set[str]:
    return {one["on"] for one in lines.objects() if one.get("to") == to}


# --- whole sessions


async def much_happens(caller: Caller) -> None:
    """Typing at once, a false start, a barge-in, reports, a cancel, a commit asked for, a hang-up in mid-speech."""
    await caller.start()
    await caller.send(wire.InputText(text="Hello."))
    await caller.pause_until_verdict(1)
    await caller.speak(1.0)
    await caller.pause_until(wire.TurnCommitted)
    await caller.speak(0.4)
    await caller.pause_until(wire.AudioFrame)
    await caller.send(wire.Playback(epoch=caller.of(wire.AudioFrame)[-1].epoch, played_samples=100))
    await caller.pause(1.0)
    await caller.speak(0.6)
    await caller.pause_until_verdict(3)
    await caller.send(wire.HistoryAdd(role="user", text="By the way."))
    await caller.send(wire.InputText(text="And now?"))
    await caller.pause(0.3)
    await caller.send(wire.ReplyCancel())
    await caller.send(wire.ReplyCreate())
    await caller.pause_until_verdict(5)
    await caller.speak(0.5)
    await caller.send(wire.InputCommit())
    await caller.pause(0.3)
    await caller.speak(0.5)
    await caller.hang_up()


def test_a_session_in_which_much_happens_is_decided_the_same_again() -> None:
    """Barge-in, reopening, typing, cancelling, closing: turns and scheduler."""
    lines = Lines()
    caller = call(much_happens, engines(LONG), tape=lines.tape)
    assert caller.of(wire.TurnReopened) and caller.of(wire.ReplyInterrupted)
    report = agrees(lines)
    assert report.sessions == 1 and report.commands > 200
    assert inputs(lines, "s1") >= {
        "on_opened",
        "on_endpoint",
        "on_commit_asked",
        "on_transcript",
        "on_thought",
        "on_spoken",
        "on_sent",
        "on_report",
        "on_cancel",
        "on_text",
        "on_create",
        "on_line",
        "on_timer",
        "on_discarded",
        "on_closed",
    }
    assert inputs(lines, "scheduler") >= {
        "on_submit",
        "on_done",
        "on_retire",
        "on_promote",
        "on_withdraw",
        "on_close",
    }


def test_a_conversation_that_goes_on_is_decided_the_same_again() -> None:
    """What is kept of the first session is an input of the second."""
    lines = Lines()

    async def main() -> None:
        async with open_house(engines(LONG), tape=lines.tape) as house:

            async def first(caller: Caller) -> None:
                await caller.start(resume=True)
                await caller.send(wire.InputText("Hello."))
                await caller.pause_until(wire.AudioFrame)

            token = (await visit(house, first)).of(wire.SessionReady)[0].resume

            async def second(caller: Caller) -> None:
                await caller.start(resume=token)
                await caller.wait(0.1)

            assert (await visit(house, second, ident="s2")).of(wire.SessionReady)[0].resumed
            house.services.resumption.close()

    virtual.run(main())
    assert agrees(lines).sessions == 2
    assert "on_lost" in inputs(lines, "s1") and "on_restored" in inputs(lines, "s2")


def test_the_recorded_words_and_commands_are_those_of_the_session() -> None:
    """What the client was told stands in the recording, in its order."""
    lines = Lines()
    caller = call(much_happens, engines(LONG), tape=lines.tape)
    commands = [command for one in lines.objects() if one.get("to") == "s1" for command in one.get("out", ())]
    told = [command["FinalTranscript"]["text"] for command in commands if "FinalTranscript" in command]
    assert [final.text for final in caller.of(wire.TranscriptFinal)] == told[: len(caller.of(wire.TranscriptFinal))]
    verdicts = [command["TurnEnded"]["record"]["verdict"] for command in commands if "TurnEnded" in command]
    assert [record.verdict for record in caller.records] == verdicts


def test_a_recorded_session_is_the_session_as_it_would_have_been() -> None:
    """In virtual time, to the message."""
    plain, recorded = call(much_happens, engines(LONG)), call(much_happens, engines(LONG), tape=Lines().tape)
    assert plain.log == recorded.log


def test_acknowledged_and_corrected_turns_are_decided_the_same_again() -> None:
    """The sounds are not in the recording, their lengths are; the reservations that hold a second pass back are."""

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until_verdict(1)
        await caller.pause(1.0)
        await caller.end()

    lines = Lines()
    words = ("One two three four five six.",)
    slow = ScriptedConfig(transcripts=words, reply="Yes. Indeed it is.", llm_prefill_ms=400.0)
    these = engines(slow, asr_second=DictatedAsr(("Other words.",)))
    known = {"acknowledgements": (np.full(4_800, 0.1, np.float32),), "clause_s": 0.4, "first_audio_s": 0.02}
    caller = call(script, these, Config(ladder=("acknowledge",)), tape=lines.tape, known=known)
    assert caller.verdicts == ["masked"] and len(caller.of(wire.TranscriptFinal)) == 2
    agrees(lines)
    assert inputs(lines, "s1") >= {"on_acknowledged", "on_reheard"}
    assert inputs(lines, "scheduler") >= {"on_reserve", "on_unreserve"}


@pytest.mark.parametrize(
    ("asr", "tts"),
    [
        ([EngineUnavailable("gone")], []),
        ([Hang(20.0)], []),
        ([], [EngineUnavailable("gone")]),
        ([], [None, Hang(20.0)]),
    ],
)
def test_failures_and_timeouts_are_decided_the_same_again(asr: list[Any], tts: list[Any]) -> None:
    """An engine raises or hangs in mid-turn, and the next turn goes well."""
    lines = Lines()
    these = engines(LONG, asr=FaultyAsr(LONG, asr), tts=FaultyTts(LONG, tts))

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until_verdict(1)
        await caller.speak(1.0)
        await caller.pause_until_verdict(2, within_s=60.0)
        await caller.end()

    call(script, these, tape=lines.tape)
    agrees(lines)


def test_an_enforced_deadline_is_decided_the_same_again() -> None:
    """The refusal is the timer's."""
    lines = Lines()
    slow = ScriptedConfig(llm_prefill_ms=2000)

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(1.0)
        await caller.pause_until_verdict(1)
        await caller.end()

    caller = call(script, engines(slow), Config(enforcement="enforce"), tape=lines.tape)
    assert caller.verdicts == ["refused"]
    agrees(lines)


def test_two_sessions_at_once_on_one_device() -> None:
    """Their lines are interleaved; each is told its own."""
    lines = Lines()

    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.speak(0.8)
        await caller.pause_until_verdict(1)
        await caller.end()

    async def main() -> None:
        async with open_house(engines(LONG), tape=lines.tape) as house, asyncio.TaskGroup() as group:
            for ident in ("s1", "s2"):
                group.create_task(visit(house, script, ident=ident))

    virtual.run(main())
    report = agrees(lines)
    assert report.sessions == 2
    order = [one["to"] for one in lines.objects() if one["entry"] == "input" and one["to"] != "scheduler"]
    assert order.index("s2") < len(order) - 1 - order[::-1].index("s1")


# --- every order of events


class Recorded(Conversation):
    """Any conversation of the model driver, which is then decided again."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = Lines()

    def make_turns(self, session: str, these: TurnSettings, serial: Iterator[int]) -> Turns:  # type: ignore[override]
        return self.lines.tape.turns(session, these, serial)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "turns"):
            agrees(self.lines)


def test_turns_are_decided_the_same_again_in_every_order_of_events() -> None:
    run_state_machine_as_test(
        Recorded,
        settings=settings(
            max_examples=40,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(steps, st.integers(1, 3))
def test_chunks_are_ordered_the_same_again_in_every_order_of_events(script: list[Step], room: int) -> None:
    lines = Lines()
    model = Model({"main": room, "ears": 1}, lines.tape.scheduler)
    for ident, step in enumerate(script):
        play(model, ident, step)
    model.finish()
    model.pass_time(0.0)
    agrees(lines)


# --- what was changed is found


def short() -> Lines:
    """Lines 2 and 3 make a scheduler and turns; 4 to 7 are for the turns."""
    lines = Lines()
    lines.tape.scheduler(PLACEMENT, {"main": 1})
    turns = lines.tape.turns("s1", SETTINGS, count(1))
    turns.on_opened(1.0)
    turns.on_line(Line("user", "Hello."))
    turns.on_endpoint(Onset(160), 1.25, 1.5)
    turns.on_text("And now?", 2.0)
    return lines


def changed(lines: Lines, number: int, **values: object) -> Report:
    """With other values in a line."""
    objects = lines.objects()
    objects[number - 1].update(values)
    return replay([json.dumps(one).encode() + b"\n" for one in objects], "r")


def test_an_input_that_was_tampered_with_is_found() -> None:
    """The line, the input, and where the answers part."""
    report = changed(short(), 7, args={"text": "And then?"})
    assert not report.agreed and report.difference is not None
    found = report.difference
    assert (found.line, found.input.on, found.unlike.at) == (7, "on_text", ".out[1].FinalTranscript.text")
    assert (found.unlike.expected, found.unlike.got) == ("And now?", "And then?")
    assert report.inputs == 3


def test_a_command_that_was_tampered_with_is_found() -> None:
    lines = short()
    out = lines.objects()[6]["out"]
    report = changed(lines, 7, out=out[:-1])
    assert report.difference is not None
    assert report.difference.unlike.at == f".out[{len(out) - 1}]"
    assert report.difference.unlike.expected is NOTHING and report.difference.unlike.got == out[-1]


def test_ids_are_issued_as_they_were_recorded() -> None:
    """The work that is submitted has another id, then."""
    report = changed(short(), 7, ids=[7])
    assert report.difference is not None
    assert report.difference.unlike.at.endswith(".Submit.work.id")
    assert (report.difference.unlike.expected, report.difference.unlike.got) == (3, 7)


@pytest.mark.parametrize(
    ("ids", "unlike"), [([], Unlike(".ids[0]", NOTHING, 3)), ([3, 4], Unlike(".ids[1]", 4, NOTHING))]
)
def test_ids_that_were_not_drawn_so_are_found(ids: list[int], unlike: Unlike) -> None:
    """Also where the commands do not show it. Beyond those recorded the next ones are issued."""
    lines = short()
    assert lines.objects()[6]["ids"] == [3]
    report = changed(lines, 7, ids=ids)
    assert report.difference is not None and report.difference.unlike == unlike


def test_a_setting_that_was_changed_is_found_where_it_matters() -> None:
    """The settings are a part of the recording."""
    lines = short()
    made = lines.objects()[2]
    made["args"]["settings"]["TurnSettings"]["instructions"] = "Be long."
    report = changed(lines, 3, args=made["args"])
    assert report.difference is not None
    assert report.difference.line == 4
    assert report.difference.unlike.at == ".out[0].Submit.task.lines[0].text"


def test_a_decision_that_has_changed_since_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same recording, another core."""
    recorded = short().read()

    def on_text(self: Turns, text: str, now: float) -> list[TurnCommand]:
        return [*reversed(decide(self, text, now))]

    decide = Turns.on_text
    monkeypatch.setattr(Turns, "on_text", on_text)
    report = replay(recorded, "r")
    assert report.difference is not None and report.difference.line == 7


def test_what_core_raised_is_raised_again() -> None:
    """A recorded fault agrees with itself, and differs from an answer."""
    lines = Lines()
    scheduler = lines.tape.scheduler(PLACEMENT, {"main": 1})
    work = Turns("s1", SETTINGS, count(1)).on_text("Hi.", 1.0)[-1].work  # type: ignore[union-attr]
    with pytest.raises(KeyError):
        scheduler.on_done(work, 1.0)
    agrees(lines)
    report = changed(lines, 3, raised=None, out=[])
    assert report.difference is not None
    assert report.difference.unlike == Unlike(".raised", None, "KeyError")


# --- files that are not as they should be


def test_a_file_that_breaks_off_is_replayed_to_its_last_whole_line() -> None:
    """The process was killed, at any byte after the first line."""
    lines = short().read()
    whole = b"".join(lines)
    for size in range(len(lines[0]), len(whole), 7):
        report = replay(whole[:size].splitlines(keepends=True), "r")
        assert report.agreed and not report.whole
        assert report.inputs == max(0, whole[:size].count(b"\n") - 3)
    assert replay(whole.splitlines(keepends=True), "r").whole


def test_entries_that_were_lost_end_it() -> None:
    """They came too fast for the disk: what follows is no wonder, and no agreement either."""
    lines = short().read()
    report = replay([*lines[:4], *lines[6:]], "r")
    assert (report.lost, report.agreed, report.difference) == (2, False, None)
    assert report.inputs == 1
    assert "2 entries that follow were not recorded" in as_lines(report)[0]


@pytest.mark.parametrize("version", [0, VERSION - 1, VERSION + 1, str(VERSION), None])
def test_another_version_is_refused_by_name(version: object) -> None:
    """Its own and the one that is read are both told, whatever else is in its first line."""
    head = json.dumps({"entry": "recording", "version": version, "colour": "red"}).encode()
    told = f"r: a recording of version {json.dumps(version)}; this voicepipe replays version {VERSION}"
    with pytest.raises(RecordingError, match=f"^{re.escape(told)}$") as caught:
        replay([head + b"\n"], "r")
    assert caught.value.field == "version" and caught.value.exit_status == 2


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b""],
        [b"\n"],
        [b'{"chunk": "hear"}\n'],
        [b"RIFF\xff\n"],
        [b"[1]\n"],
        [encode(HEAD)[:-1]],
        [encode(End())],
    ],
)
def test_what_is_no_recording_is_refused(lines: list[bytes]) -> None:
    """A ledger, a sound, nothing at all."""
    with pytest.raises(RecordingError, match="r: no recording"):
        replay(lines, "r")


WRONG: list[tuple[int, dict[str, object], str]] = [
    (2, {"component": "Ears"}, 'line 2: component: no "Ears" is known'),
    (2, {"args": {"placement": {}}}, "line 2: Scheduler.capacity: the argument is missing"),
    (2, {"args": {"placement": {"sing": "main"}, "capacity": {}}}, "line 2: Scheduler.placement"),
    (3, {"args": {"session": "s1", "settings": {"TurnSettings": {}}}}, "line 3: Turns.settings.TurnSettings: "),
    (5, {"args": {"line": {"Line": {"role": "user"}}}}, "line 5: on_line.line.Line: .*`text`"),
    (5, {"now": 1.5}, "line 5: on_line.now: there is no such argument"),
    (6, {"to": "s9"}, 'line 6: to: nothing was made that is called "s9"'),
    (6, {"on": "on_smell"}, 'line 6: on: Turns has no "on_smell"'),
    (6, {"on": "snapshot"}, 'line 6: on: Turns has no "snapshot"'),
    (6, {"args": {"event": {"Onset": {"start": "x"}}, "when": 1.25}}, "line 6: on_endpoint.event.Onset.start: "),
    (6, {"args": {"event": {"Onset": {"start": 1}}}}, "line 6: on_endpoint.when: the argument is missing"),
    (6, {"now": None}, "line 6: on_endpoint.now: the argument is missing"),
    (6, {"now": "soon"}, "line 6: now: Expected `float | null`"),
    (6, {"colour": "red"}, "line 6: .*unknown field `colour`"),
    (6, {"n": 3}, "line 6: n: 3 after 4"),
    (6, {"entry": "end"}, "line 6: "),
]


@pytest.mark.parametrize(("number", "values", "message"), WRONG)
def test_a_line_that_cannot_be_read_is_named_with_its_field(
    number: int, values: dict[str, object], message: str
) -> None:
    with pytest.raises(RecordingError, match=f"^r, {message}"):
        changed(short(), number, **values)


def test_a_whole_line_that_is_no_json_is_named() -> None:
    """Only the last one may be cut off, and that shows by its missing end."""
    lines = short().read()
    lines[4] = b'{"entry":"inp\n'
    with pytest.raises(RecordingError, match="r, line 5: not JSON"):
        replay(lines, "r")


def test_nothing_comes_after_the_end_and_no_second_beginning() -> None:
    lines = short().read()
    for more in (lines[-1], lines[3], lines[0]):
        with pytest.raises(RecordingError, match=f"r, line {len(lines) + 1}: an entry that is out of place"):
            replay([*lines, more], "r")


# --- what is told of it


def test_agreement_for_people_and_machines() -> None:
    report = short().replayed()
    (line,) = as_lines(report)
    assert line.startswith(f"4 inputs, {report.commands} commands, 1 session agree (recorded by voicepipe 0.1.0 on")
    assert as_dict(report) == {
        "agreed": True,
        "sessions": 1,
        "inputs": 4,
        "commands": report.commands,
        "whole": True,
        "lost": 0,
        "recorded_by": {"voicepipe": "0.1.0", "python": "3.11.7"},
        "difference": None,
    }
    cut = replay(short().read()[:-1], "r")
    assert "the recording breaks off there" in as_lines(cut)[0] and as_dict(cut)["whole"] is False


def test_a_difference_for_people_and_machines() -> None:
    """Input, expected, got."""
    lines = short()
    out = lines.objects()[6]["out"]
    report = changed(lines, 7, out=[*out, 1])
    first, *more, last = as_lines(report)
    assert first == f"line 7 differs, on_text of s1 at 2.0 s: out[{len(out)}]"
    assert more == ['  input     {"text":"And now?"}', "  expected  1", "  got       nothing"]
    assert last.startswith("3 inputs, ") and "before it agree" in last
    found = as_dict(report)["difference"]
    assert isinstance(found, Mapping)
    assert dict(found) == {
        "line": 7,
        "to": "s1",
        "on": "on_text",
        "now": 2.0,
        "args": {"text": "And now?"},
        "at": f"out[{len(out)}]",
        "expected": 1,
        "got": None,
    }
    assert json.loads(json.dumps(as_dict(report)))["agreed"] is False


def test_a_name_that_is_made_again_is_another_component() -> None:
    """It begins at the beginning, ids too."""
    lines = Lines()
    for _ in range(2):
        lines.tape.turns("s1", SETTINGS, count(1)).on_text("Hello.", 1.0)
    assert agrees(lines).sessions == 2
