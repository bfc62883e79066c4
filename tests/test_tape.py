"""The lines of a recording: every input and every value comes back as it went in, and nothing else is taken."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from math import inf, isnan, nan
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from voicepipe import app, tape
from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.blame import SHARES
from voicepipe.core.events import (
    Ask,
    Call,
    EndpointEvent,
    Hearing,
    LaneTiming,
    Line,
    Listened,
    Load,
    Lull,
    Offer,
    Onset,
    Quiet,
    ReplyAudio,
    Resumed,
    Silence,
    SoftEnd,
    Stage,
    Swell,
    Timing,
    Tool,
    Tools,
    Voiced,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.history import Entry, Kept
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import ReplySettings
from voicepipe.core.scheduler import Pool, Scheduler
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import TurnSettings
from voicepipe.errors import RecordingError
from voicepipe.tape import (
    COMPONENTS,
    NOTHING,
    REQUIRED,
    SERIAL,
    VERSION,
    Argument,
    End,
    Head,
    Input,
    Made,
    Unlike,
    arguments_of,
    constructor_of,
    decode,
    encode,
    first_difference,
    inputs_of,
    named,
    plain,
    text,
    value_of,
)

WORK = Work(7, "s1", 2, 3, 1, WorkKind.SPEAK, WorkClass.STARTED, deadline=100.1, bound_s=0.05, remaining_s=0.01)
TEXTS = Work(
    8,
    "texts",
    0,
    0,
    0,
    WorkKind.GENERATE,
    WorkClass.BACKGROUND,
    bound_s=0.02,
    load=Load("m", 2, 64, "decode-1"),
    larger=(Offer(Load("m", 4, 64, "decode-1"), 0.04),),
    since=1.25,
)
TIMING = Timing(1.0, 1.25, 1.5)
LANE_TIMING = LaneTiming(1.0, 1.25, 1.5, granted=1.2, blocked_s=0.1, background_s=0.05)
HEARING = Hearing(1.0, (Listened(LANE_TIMING, 0.002, 1.5), Listened(LANE_TIMING, 0.0, 1.75)))
SETTINGS = TurnSettings(
    ReplySettings(PlayoutSettings(24_000)),
    OPERATING_POINTS["safe"],
    "Be brief.",
    shares=SHARES,
    acknowledge=AcknowledgeSettings(sounds=(bytes(640), bytes(480))),
)
EVENTS: tuple[EndpointEvent, ...] = (
    Onset(5),
    Voiced(512, 1024),
    SoftEnd(2048),
    Resumed(3000),
    Silence(512),
    Silence(1024, 0.75),
    Lull(100, 420),
    Swell(900),
    Quiet(320),
)

CALL = Call("call_1", "weather", '{"place": "Oslo"}')
TOOLS = Tools((Tool("weather", "Tells it.", '{"type":"object"}'),), "required")
ASK = Ask("Be brief.", (Line("user", "Hi."), Line("call", "{}", "call_1", "weather")), False, 20, False, TOOLS)

EXAMPLES: dict[str, tuple[dict[str, Any], ...]] = {
    "Turns.on_restored": (
        {"kept": Kept((Entry(Line("user", "Hi."), "user-1"), Entry(Line("call", "{}", "call_1", "w"), "")), 3, 7)},
    ),
    "Turns.on_lost": ({"now": 1.5},),
    "Turns.on_opened": ({"now": 1.5},),
    "Turns.on_settings": ({"settings": SETTINGS},),
    "Turns.on_shed": ({"shed": True}, {"shed": False}),
    "Turns.on_spare": ({"spare_s": 0.05}, {"spare_s": None}),
    "Turns.on_outlook": ({"outlook": Outlook(final_bound_s=0.1, reading_s=0.04, audio_ratio=1.5)},),
    "Turns.on_endpoint": (
        *({"event": event, "when": 1.25, "now": 1.5, "hearing": None} for event in EVENTS),
        {"event": SoftEnd(2048), "when": 1.25, "now": 1.5, "hearing": HEARING},
    ),
    "Turns.on_commit_asked": (
        {"now": 1.5, "hearing": None, "even_empty": False},
        {"now": 1.5, "hearing": HEARING, "even_empty": True},
    ),
    "Turns.on_clear": ({"now": 1.5},),
    "Turns.on_expected": ({"work": WORK, "service_s": 0.04, "running": True, "now": 1.5},),
    "Turns.on_transcript": (
        {"work": WORK, "stable": "Grüße,", "tentative": "“☃”", "upto": 9, "timing": TIMING, "now": 1.5},
        {"work": WORK, "stable": "", "tentative": "", "upto": 0, "timing": LANE_TIMING, "now": 1.5},
    ),
    "Turns.on_score": ({"work": WORK, "score": 0.012345678901234567, "now": 1.5},),
    "Turns.on_thought": (
        {"work": WORK, "text": " one\n", "finished": False, "timing": LANE_TIMING, "now": 1.5, "calls": ()},
        {"work": WORK, "text": "", "finished": True, "timing": TIMING, "now": 1.5, "calls": (CALL,)},
    ),
    "Turns.on_spoken": (
        {"work": WORK, "pcm": bytes(640), "last": False, "timing": LANE_TIMING, "now": 1.5},
        {"work": WORK, "pcm": b"", "last": True, "timing": TIMING, "now": 1.5},
    ),
    "Turns.on_reheard": ({"work": WORK, "text": "I want a pear.", "finished": True},),
    "Turns.on_acknowledged": ({"epoch": 3, "now": 1.5},),
    "Turns.on_engine_failed": ({"work": WORK, "code": "engine_busy", "now": 1.5},),
    "Turns.on_deaf": ({"code": "engine_failed", "now": 1.5},),
    "Turns.on_discarded": ({"work": WORK},),
    "Turns.on_sent": ({"epoch": 3, "now": 1.5},),
    "Turns.on_report": ({"epoch": 3, "played_samples": 4800, "now": 1.5},),
    "Turns.on_truncate": ({"epoch": 3, "played_samples": 4800, "now": 1.5},),
    "Turns.on_cut": ({"epoch": 3, "heard_samples": 4800, "now": 1.5},),
    "Turns.on_cancel": ({"now": 1.5},),
    "Turns.on_text": ({"text": "Hello.", "now": 1.5},),
    "Turns.on_create": ({"now": 1.5, "ask": None}, {"now": 1.5, "ask": ASK}),
    "Turns.on_closed": ({"now": 1.5},),
    "Turns.on_line": (
        {"line": Line("user", "Hello."), "name": "", "after": None},
        {"line": Line("tool", "12", "call_1"), "name": "item:1", "after": "user-2"},
    ),
    "Turns.on_delete": ({"name": "user-2"},),
    "Turns.on_timer": ({"now": 1.5},),
    "Scheduler.on_submit": ({"work": WORK, "now": 1.5}, {"work": TEXTS, "now": 1.5}),
    "Scheduler.on_done": (
        {"work": WORK, "now": 1.5, "service_s": 0.25},
        {"work": WORK, "now": 1.5, "service_s": None},
    ),
    "Scheduler.on_retire": ({"session": "s1", "epoch": 3, "revision": 1, "now": 1.5},),
    "Scheduler.on_withdraw": ({"work": WORK, "now": 1.5},),
    "Scheduler.on_close": ({"session": "s1", "now": 1.5},),
    "Scheduler.on_promote": (
        {"session": "s1", "epoch": 3, "now": 1.5, "deadline": None, "kinds": ()},
        {"session": "s1", "epoch": 3, "now": 1.5, "deadline": 2.5, "kinds": (WorkKind.THINK, WorkKind.SPEAK)},
    ),
    "Scheduler.on_reserve": ({"session": "s1", "latest_start_s": 2.5, "now": 1.5},),
    "Scheduler.on_unreserve": ({"session": "s1", "now": 1.5},),
    "Scheduler.on_timer": ({"now": 1.5},),
    "Turns.__init__": ({"session": "s1", "settings": SETTINGS},),
    "Scheduler.__init__": (
        {
            "placement": {WorkKind.HEAR: "ears", WorkKind.FINAL: "main"},
            "capacity": {"main": 2},
            "max_queued": 6,
            "pool": Pool.SHARED,
        },
    ),
}
"""All arguments of every input of every component that is recorded, and of their constructors."""


def recorded() -> dict[str, Mapping[str, Argument]]:
    """What is recorded, with its arguments."""
    known = {}
    for name, component in COMPONENTS.items():
        for method, function in {**inputs_of(component), "__init__": constructor_of(component)}.items():
            arguments = dict(arguments_of(function))
            arguments.pop(SERIAL, None)
            known[f"{name}.{method}"] = arguments
    return known


def test_every_input_has_an_example() -> None:
    """A new `on_` method, argument or endpoint event is entered here, and thereby tried."""
    assert EXAMPLES.keys() == recorded().keys()
    for name, arguments in recorded().items():
        for example in EXAMPLES[name]:
            assert example.keys() == arguments.keys(), name
    assert {type(event) for event in EVENTS} == set(get_args(EndpointEvent))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_argument_comes_back_as_it_went_in(name: str) -> None:
    """Through JSON; of bytes the number."""
    for example in EXAMPLES[name]:
        for argument, value in example.items():
            raw = msgspec.json.decode(msgspec.json.encode(named(value)))
            back = value_of(recorded()[name][argument].annotation, raw, argument)
            assert back == value and type(back) is type(value), argument


def uncertain(info: inspect.Type) -> Iterator[inspect.Type]:
    """The parts of a type that `msgspec` would read back as anything, or not at all."""
    if isinstance(info, inspect.AnyType | inspect.CustomType | inspect.RawType):
        yield info
    for name in info.__struct_fields__:
        value = getattr(info, name)
        for inner in value if isinstance(value, tuple) else (value,):
            inner = inner.type if isinstance(inner, inspect.Field) else inner
            if isinstance(inner, inspect.Type):
                yield from uncertain(inner)


def members(annotation: Any) -> tuple[Any, ...]:
    """Dataclasses of an argument are read one by one, by their names."""
    return get_args(annotation) if isinstance(annotation, type(int | str)) else (annotation,)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_argument_has_a_type_that_can_be_read_back(name: str) -> None:
    """No `object`, no callable, no class that is not a plain value: such a thing would be a hidden input."""
    for argument, known in recorded()[name].items():
        for member in members(known.annotation):
            assert not list(uncertain(inspect.type_info(member))), f"{name}: {argument}"


@pytest.mark.parametrize("annotation", [object, Any, Mapping[str, object], Iterator[int], tuple[Scheduler, ...]])
def test_a_type_that_cannot_be_read_back_is_noticed(annotation: Any) -> None:
    """The test above can fail."""
    assert list(uncertain(inspect.type_info(annotation)))


def subclasses(cls: type[object]) -> set[type[object]]:
    """Those that are still reachable by name: a dataclass with slots leaves its first draft behind."""
    found = {one for one in cls.__subclasses__() if getattr(sys.modules[one.__module__], one.__name__, None) is one}
    return found.union(*map(subclasses, found)) if found else found


def test_no_subclass_comes_unforeseen_in_place_of_its_class() -> None:
    """Whatever the server has loaded: of the values that go in, only a timing has a variant."""
    assert app.serving
    given = {type(value) for group in EXAMPLES.values() for example in group for value in example.values()}
    assert given >= {Work, Timing, LaneTiming, Line, *get_args(EndpointEvent)}
    variants = {cls: subclasses(cls) for cls in given if is_dataclass(cls)}
    assert {cls: found for cls, found in variants.items() if found} == {Timing: {LaneTiming}}


# --- values


def test_how_values_stand_in_a_line() -> None:
    """Named dataclasses, numbers of bytes, words for what JSON lacks."""
    assert named(Onset(5)) == {"Onset": {"start": 5}}
    assert named(ReplyAudio(1, 480, bytes(960))) == {
        "ReplyAudio": {"epoch": 1, "offset": 480, "pcm": {"bytes": 960}}
    }
    assert named("Onset") == "Onset"
    assert plain([inf, -inf, 1.5, (1, None, True)]) == [{"float": "inf"}, {"float": "-inf"}, 1.5, [1, None, True]]
    assert plain({Stage.ASR: WorkClass.AHEAD}) == {"asr": 3}


def test_floats_come_back_to_the_last_bit() -> None:
    """Those that JSON has no words for too."""
    for value in (0.1 + 0.2, 1e-300, 22305.283500033, -0.0, inf, -inf):
        raw = msgspec.json.decode(msgspec.json.encode(plain(value)))
        assert repr(value_of(float, raw, "now")) == repr(value)
    assert isnan(value_of(float, plain(nan), "now"))


RAW_WORK = named(WORK)["Work"]
WRONG = [
    (Work, {"Work": {**RAW_WORK, "turn": "2"}}, "work.Work.turn"),
    (Work, {"Work": {**RAW_WORK, "kind": "sing"}}, "work.Work.kind"),
    (Work, {"Work": {**RAW_WORK, "klass": 9}}, "work.Work.klass"),
    (Work, {"Work": {key: value for key, value in RAW_WORK.items() if key != "turn"}}, "work.Work"),
    (Work, {"Work": {key: value for key, value in RAW_WORK.items() if key != "bound_s"}}, "work.Work"),
    (Work, {"Work": {**RAW_WORK, "colour": "red"}}, "work.Work"),
    (Work, {"Onset": {"start": 1}}, "work"),
    (Work, RAW_WORK, "work"),
    (EndpointEvent, {"Cough": {"start": 1}}, "work"),
    (EndpointEvent, {"Onset": {"start": 1}, "SoftEnd": {"at": 1}}, "work"),
    (EndpointEvent, {"Onset": {"start": 1.5}}, "work.Onset.start"),
    (Timing, None, "work"),
    (bytes, {"bytes": -1}, "work"),
    (bytes, {"bytes": tape.MAX_BYTES + 1}, "work"),
    (bytes, "AAAA", "work"),
    (float, {"float": "much"}, "work"),
    (float, None, "work"),
    (bool, 1, "work"),
    (int, True, "work"),
]


@pytest.mark.parametrize(("annotation", "raw", "field"), WRONG)
def test_what_is_not_as_it_was_written_is_refused_by_name(annotation: Any, raw: object, field: str) -> None:
    """A wrong type, an unknown field, and also a missing one that has a default."""
    with pytest.raises(RecordingError) as caught:
        value_of(annotation, raw, "work")
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field}: ")


def test_an_argument_that_may_be_none_may_be_none() -> None:
    """Also where it is a dataclass otherwise."""
    assert value_of(Line | None, None, "line") is None
    assert value_of(Line | None, named(Line("user", "Hi.")), "line") == Line("user", "Hi.")


# --- lines

ENTRIES = [
    Head(version=VERSION, holds="words", voicepipe="0.1.0", python="3.11.7"),
    Made(n=1, name="scheduler", component="Scheduler", args={"capacity": {"main": 1}}),
    Input(n=2, to="s1", on="on_timer", now=1.5, args={}, ids=(3, 4), out=[]),
    Input(n=3, to="s1", on="on_line", args={"line": {"Line": {"role": "user", "text": "Hi."}}}),
    Input(n=4, to="s1", on="on_timer", now=1.5, raised="AssertionError"),
    End(),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_every_entry_is_one_line_and_comes_back(entry: tape.Entry) -> None:
    line = encode(entry)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode(line) == entry


def test_no_commands_and_none_at_all_are_two_things() -> None:
    """An input that gives nothing back is not one that decided on nothing."""
    assert b'"out":[]' in encode(ENTRIES[2])
    assert b'"out"' not in encode(ENTRIES[3])


@pytest.mark.parametrize(
    ("line", "field", "problem"),
    [
        (b'{"entry":"input","n":1,"to":"s1","on":"on_timer","now":"soon"}\n', "now", "Expected `float | null`"),
        (b'{"entry":"input","n":1,"on":"on_timer"}\n', None, "missing required field `to`"),
        (b'{"entry":"input","n":1,"to":"s1","on":"on_timer","colour":1}\n', None, "unknown field `colour`"),
        (b'{"entry":"output"}\n', "entry", "Invalid value 'output'"),
        (b"[1]\n", None, "Expected `object`"),
        (b'{"entry":\n', None, "not JSON"),
        (b'{"entry":"\xff"}\n', None, "not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(line: bytes, field: str | None, problem: str) -> None:
    """With the field, where it is one."""
    with pytest.raises(RecordingError, match=problem) as caught:
        decode(line)
    assert caught.value.field == field


def test_inputs_are_the_on_methods() -> None:
    """Questions are none."""
    names = inputs_of(Turns)
    assert "on_endpoint" in names and "snapshot" not in names and "next_deadline" not in names


def test_arguments_come_with_their_defaults() -> None:
    """In the order of the signature, without `self`."""
    arguments = arguments_of(Scheduler.on_done)
    assert list(arguments) == ["work", "now", "service_s"]
    assert [one.default for one in arguments.values()] == [REQUIRED, REQUIRED, None]


# --- comparing

COMMANDS = [{"Committed": {"turn": 1, "epoch": 1}}, {"Promote": {"epoch": 1}}]


def test_equals_do_not_differ() -> None:
    """An integer is the float of the same value: JSON does not always tell them apart."""
    assert first_difference(COMMANDS, [dict(one) for one in COMMANDS]) is None
    assert first_difference({"felt": 0}, {"felt": 0.0}) is None


@pytest.mark.parametrize(
    ("got", "unlike"),
    [
        ([{"Committed": {"turn": 1, "epoch": 2}}, COMMANDS[1]], Unlike("[0].Committed.epoch", 1, 2)),
        ([COMMANDS[1], COMMANDS[0]], Unlike("[0]", COMMANDS[0], COMMANDS[1])),
        (COMMANDS[:1], Unlike("[1]", COMMANDS[1], NOTHING)),
        ([*COMMANDS, 1], Unlike("[2]", NOTHING, 1)),
        ([{"Committed": {"turn": True, "epoch": 1}}, COMMANDS[1]], Unlike("[0].Committed.turn", 1, True)),
        (None, Unlike("", COMMANDS, None)),
    ],
)
def test_the_first_difference_is_found_with_its_place(got: object, unlike: Unlike) -> None:
    assert first_difference(COMMANDS, got) == unlike


def test_values_are_told_in_one_line() -> None:
    assert (text(COMMANDS[1]), text(NOTHING)) == ('{"Promote":{"epoch":1}}', "nothing")


def test_every_setting_makes_a_difference_to_what_is_written() -> None:
    """None of them is left out: a file is self-contained."""
    assert set(plain(SETTINGS)) == {field.name for field in fields(SETTINGS)}
    assert plain(replace(SETTINGS, grace_s=0.5)) != plain(SETTINGS)
