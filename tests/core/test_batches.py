"""What goes together in one chunk, and what that takes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.batches import BATCH, companions, joined, like
from voicepipe.core.events import Load, Stage, Work, WorkClass, WorkKind
from voicepipe.core.waiting import Waiting

ROUNDING_S = 1e-9
DECODE = Load("model", 4, 100, "decode", batch=4)


def work(
    session: str,
    *,
    klass: WorkClass = WorkClass.STARTED,
    deadline: float | None = None,
    expected_s: float = 0.016,
    more_s: float = 0.001,
    load: Load | None = DECODE,
    kind: WorkKind = WorkKind.THINK,
) -> Work:
    return Work(
        1,
        session,
        1,
        1,
        0,
        kind,
        klass,
        deadline,
        bound_s=2 * expected_s,
        load=load,
        expected_s=expected_s,
        more_s=more_s,
    )


def waiting(*works: Work) -> list[Waiting]:
    return [Waiting(each, serial, 0.0) for serial, each in enumerate(works)]


def chosen(first: Work, *others: Work, now: float = 0.0) -> list[str]:
    return [each.work.session for each in companions(first, waiting(*others), now)]


def test_stage_and_model_make_works_alike() -> None:
    assert like(work("a")) == (Stage.LLM, "model")
    assert like(work("a", kind=WorkKind.WARM)) == like(work("a"))
    assert like(work("a", load=replace(DECODE, model="other"))) != like(work("a"))
    assert like(work("a", load=replace(DECODE, batch=1))) is None
    assert like(work("a", load=None)) is None


def test_the_most_urgent_go_along_up_to_what_the_engine_can_do() -> None:
    ahead = work("ahead", klass=WorkClass.AHEAD, deadline=0.1)
    later, sooner = work("later", deadline=3.0), work("sooner", deadline=2.0)
    guess = work("guess", klass=WorkClass.SPECULATION)
    assert chosen(work("a"), ahead, later, sooner, guess) == ["sooner", "later", "guess"]


def test_nobody_is_made_late_by_company() -> None:
    """The first could begin 0.5 ms later, or 1.5."""
    assert chosen(work("a", deadline=0.0165), work("b")) == []
    assert chosen(work("a", deadline=0.0175), work("b"), work("c")) == ["b"]
    assert chosen(work("a", deadline=0.010), work("b")) == ["b"], "it is late anyway"
    assert chosen(work("a"), work("b", deadline=0.0175), work("c")) == ["b"], "neither is one that goes along"


def test_what_is_not_known_to_gain_stays_by_itself() -> None:
    assert chosen(work("a"), work("b", more_s=0.0), work("c", more_s=0.016)) == []


def test_a_session_has_one_step_in_a_chunk() -> None:
    assert chosen(work("a"), work("a"), work("b"), work("b")) == ["b"]


def test_a_batch_is_one_chunk() -> None:
    """Its size is the sum, and its bound as far above what is expected as that of the first alone."""
    first, second = work("a"), work("b", load=replace(DECODE, units=2, context=50))
    whole = joined([first, second])
    assert whole.key == first.key and whole.load == Load("model", 6, 150, BATCH, 2)
    assert (round(whole.expected_s, 9), round(whole.bound_s, 9)) == (0.017, 0.034)
    assert joined([first]) is first


@given(
    st.lists(
        st.tuples(
            st.sampled_from("bcdefgh"), st.sampled_from(WorkClass), st.floats(0.0, 0.1), st.floats(0.0, 0.02)
        ),
        max_size=12,
    ),
    st.floats(0.0, 0.1),
    st.integers(2, 6),
)
def test_of_whatever_waits(others: list[tuple[str, WorkClass, float, float]], deadline: float, batch: int) -> None:
    """At most so many, of different sessions, and nobody who was in time is late by one more."""
    load = replace(DECODE, batch=batch)
    first = work("a", deadline=deadline, load=load)
    told = [work(name, klass=klass, deadline=due, more_s=more_s) for name, klass, due, more_s in others]
    taken = [first, *(each.work for each in companions(first, waiting(*told), 0.0))]
    assert len(taken) <= batch
    assert len({each.session for each in taken}) == len(taken)
    for count in range(1, len(taken)):
        before_s, after_s = joined(taken[:count]).expected_s, joined(taken[: count + 1]).expected_s
        for each in taken[:count]:
            assert each.deadline is not None
            assert not before_s + ROUNDING_S < each.deadline < after_s - ROUNDING_S, "it was in time, and is not"
