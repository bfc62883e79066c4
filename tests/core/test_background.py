"""Texts that nobody waits to hear: slots, the queue, chunks, and what is taken back."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.background import (
    SESSION,
    Background,
    CloseText,
    Generate,
    OpenText,
    RefuseText,
    Rest,
    TakeBack,
    TextCommand,
    TextSettings,
)
from voicepipe.core.events import Load, WorkClass, WorkKind


def background(**more: int) -> Background:
    return Background(TextSettings("m", **({"slots": 2, "max_waiting": 1} | more)), count(1))  # type: ignore[arg-type]


def chunk(commands: list[TextCommand]) -> Generate:
    (one,) = [command for command in commands if isinstance(command, Generate)]
    return one


def run(
    one: Background, out: Generate, now: float, size: Load | None = None, **rests: Rest | None
) -> list[TextCommand]:
    """At its largest size, where no other is given."""
    one.on_begun(out.work.id, size or out.sizes[-1], now)
    return one.on_ran(out.work.id, rests, now)


def written(one: Background, *idents: str) -> Generate:
    """Each has a slot, and has been read; the chunk that comes then."""
    out = None
    for ident in idents:
        commands = one.on_request(ident, 40, 0.0)
        out = chunk(commands) if any(isinstance(c, Generate) for c in commands) else out
    assert out is not None
    while out.sizes[0].variant == "split" or len(out.idents) < len(idents):
        rests = {ident: Rest("decode", 100, 10) for ident in out.idents}
        out = chunk(run(one, out, 0.0, **rests))
    return out


def test_a_request_gets_a_slot_and_is_split() -> None:
    """The first chunk: of background, since its request came, priced by characters."""
    opened, out = background().on_request("a", 40, 3.0)
    assert opened == OpenText("a") and isinstance(out, Generate)
    assert out.idents == ("a",) and out.sizes == (Load("m", 40, variant="split"),)
    work = out.work
    assert (work.session, work.kind, work.klass) == (SESSION, WorkKind.GENERATE, WorkClass.BACKGROUND)
    assert work.since == 3.0


def test_a_prompt_is_offered_in_several_sizes() -> None:
    """Eight tokens are the start, and then up to twice as many as have run; no size is beyond what is left."""
    one = background()
    out = chunk(run(one, chunk(one.on_request("a", 40, 0.0)), 0.1, a=Rest("prefill", 19, 4)))
    assert out.sizes == tuple(Load("m", units, 4, "prefill") for units in (2, 4, 8))
    assert out.sizes[out.start].units == 8
    out = chunk(run(one, out, 0.2, a=Rest("prefill", 11, 12)))
    assert out.sizes == tuple(Load("m", units, 12, "prefill") for units in (2, 4, 8, 11))


def test_texts_are_written_together() -> None:
    """Two tokens of one are the start; what rows attend to adds up, with each token anew; each number of rows has a
    price of its own."""
    one = background(slots=3)
    out = written(one, "a", "b", "c")
    assert out.idents == ("a", "b", "c")
    assert [(load.variant, load.units, load.context) for load in out.sizes] == [
        ("decode-1", 1, 10),
        ("decode-1", 2, 20),
        ("decode-2", 1, 20),
        ("decode-3", 1, 30),
        ("decode-3", 2, 60),
    ]
    assert out.start == 1
    rests = {ident: Rest("decode", 98, 12) for ident in "abc"}
    anew = chunk(run(one, out, 0.1, **rests))
    assert [load.units for load in anew.sizes if load.variant == "decode-3"] == [1, 2, 4]


def test_where_not_all_fit_they_take_turns() -> None:
    """A chunk for one row is for the text that was written to least recently."""
    one = background(slots=3)
    out = written(one, "a", "b", "c")
    order = []
    for size in (0, 0, 2, 0):
        at_work = out.idents_at(out.sizes[size])
        order.append("".join(at_work))
        rests = {ident: Rest("decode", 90, 20) for ident in at_work}
        out = chunk(run(one, out, 0.0, out.sizes[size], **rests))
    assert order == ["a", "b", "ca", "b"]


def test_a_text_that_does_not_run_can_be_closed_meanwhile() -> None:
    """The chunk is for another one at its size."""
    one = background()
    out = written(one, "a", "b")
    one.on_begun(out.work.id, out.sizes[0], 1.0)
    assert one.on_cancel("b", 1.0) == [CloseText("b")]
    assert one.on_cancel("a", 1.0) == []
    assert one.on_ran(out.work.id, {"a": Rest("decode", 9, 9)}, 1.1) == [CloseText("a")]


def test_reading_and_writing_take_turns() -> None:
    """A long prompt does not keep the others from being written."""
    one = background()
    out = written(one, "a")
    one.on_request("b", 40, 0.0)
    variants = []
    rests = {"a": Rest("decode", 50, 9), "b": Rest("prefill", 99)}
    for _ in range(4):
        out = chunk(run(one, out, 0.0, **{ident: rests[ident] for ident in out.idents}))
        variants.append(out.sizes[0].variant)
    assert variants == ["split", "decode-1", "prefill", "decode-1"]


def test_beyond_the_slots_a_request_waits_and_beyond_that_it_is_refused() -> None:
    """With the time to come back: two are before it, for two slots of five seconds."""
    one = background()
    for ident in "abc":
        one.on_request(ident, 40, 0.0)
    assert one.on_request("d", 40, 0.0) == [RefuseText("d", 5)]
    snapshot = one.snapshot()
    assert (snapshot.running, snapshot.waiting, snapshot.refused) == (2, 1, 1)


def test_a_slot_goes_to_the_next_when_a_text_is_done() -> None:
    """In the order in which they came, and the mean time in a slot follows."""
    one = background()
    out = written(one, "a", "b")
    one.on_request("c", 40, 0.0)
    commands = run(one, out, 15.0, a=None, b=Rest("decode", 99, 11))
    assert commands[:2] == [CloseText("a"), OpenText("c")]
    assert chunk(commands).idents == ("c",)
    assert one.snapshot().mean_s == pytest.approx(5.0 + 0.1 * 10.0)


def test_a_text_that_nobody_wants_any_more_is_closed_at_once_between_chunks() -> None:
    """The chunk that waits is made anew without it."""
    one = background()
    out = written(one, "a", "b")
    closed, back, anew = one.on_cancel("a", 1.0)
    assert (closed, back) == (CloseText("a"), TakeBack(out.work))
    assert isinstance(anew, Generate) and anew.idents == ("b",)


def test_a_text_that_nobody_wants_any_more_is_closed_when_its_chunk_has_ended() -> None:
    """What runs cannot be stopped, and its slot is not free before."""
    one = background()
    out = written(one, "a", "b")
    one.on_begun(out.work.id, out.sizes[-1], 1.0)
    assert one.on_cancel("a", 1.0) == []
    commands = one.on_ran(out.work.id, {"a": Rest("decode", 98, 12), "b": Rest("decode", 98, 12)}, 1.1)
    assert commands[0] == CloseText("a") and chunk(commands).idents == ("b",)


def test_one_that_waits_is_forgotten() -> None:
    """Nothing was begun for it; and an end may be told twice."""
    one = background()
    for ident in "abc":
        one.on_request(ident, 40, 0.0)
    assert one.on_cancel("c", 1.0) == one.on_cancel("c", 1.0) == []
    assert one.snapshot().waiting == 0


def test_a_new_request_changes_a_chunk_that_has_not_begun() -> None:
    """The next was to write again; now it is the new text's turn."""
    one = background()
    out = chunk(run(one, written(one, "a"), 0.0, a=Rest("decode", 98, 12)))
    opened, back, anew = one.on_request("b", 40, 2.0)
    assert (opened, back) == (OpenText("b"), TakeBack(out.work))
    assert isinstance(anew, Generate) and anew.idents == ("b",)


def test_a_new_request_that_changes_nothing_takes_nothing_back() -> None:
    """The chunk that waits is the one that would be made."""
    one = background()
    one.on_request("a", 40, 0.0)
    assert one.on_request("b", 40, 0.0) == [OpenText("b")]


def test_the_place_is_that_of_the_oldest() -> None:
    """For pools in which who came first goes first."""
    one = background()
    out = chunk(one.on_request("a", 40, 1.0))
    one.on_request("b", 40, 7.0)
    sinces = []
    for _ in range(3):
        out = chunk(run(one, out, 8.0, **{ident: Rest("decode", 9, 9) for ident in out.idents}))
        sinces.append((out.idents, out.work.since))
    assert sinces == [(("a",), 1.0), (("b",), 7.0), (("a", "b"), 1.0)]


def test_there_is_no_timer() -> None:
    one = background()
    assert one.next_deadline() is None and one.on_timer(5.0) == []


@given(st.lists(st.tuples(st.sampled_from("rcbd"), st.integers(0, 7)), max_size=60))
def test_slots_are_never_exceeded_and_each_is_given_back_once(events: list[tuple[str, int]]) -> None:
    """Whatever comes in whatever order: one chunk is out at a time, of texts that have a slot and are wanted."""
    one = background(slots=2, max_waiting=2)
    held: set[str] = set()
    out: Generate | None = None
    begun = False
    at_work: tuple[str, ...] = ()
    known: list[str] = []

    def take(commands: list[TextCommand]) -> None:
        nonlocal out
        for command in commands:
            match command:
                case OpenText(ident):
                    assert ident not in held
                    held.add(ident)
                case CloseText(ident):
                    held.remove(ident)
                case TakeBack(work):
                    assert out is not None and out.work == work and not begun
                    out = None
                case Generate():
                    assert out is None and set(command.idents) <= held
                    out = command
        assert len(held) <= 2

    for now, (kind, number) in enumerate(events):
        if kind == "r":
            known.append(f"t{len(known)}")
            take(one.on_request(known[-1], 10, now))
        elif kind == "c" and known:
            take(one.on_cancel(known[number % len(known)], now))
        elif kind == "b" and out is not None and not begun:
            begun = True
            size = out.sizes[number % len(out.sizes)]
            at_work = out.idents_at(size)
            one.on_begun(out.work.id, size, now)
        elif kind == "d" and out is not None and begun:
            done, out, begun = out, None, False
            rests = {ident: Rest("decode", 5, 5) if number % 3 else None for ident in at_work}
            take(one.on_ran(done.work.id, rests, now))
    assert one.snapshot().running == len(held)
