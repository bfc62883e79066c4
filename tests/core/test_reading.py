"""Reading ahead of a reply, step by step."""

from __future__ import annotations

from itertools import count

from voicepipe.core.events import Line, Submit, Think, Tool, Tools, Withdraw, Work, WorkClass, WorkKind
from voicepipe.core.reading import Reading

SYSTEM = Line("system", "Be brief.")
TOOLS = Tools((Tool("clock", "Tells the time.", "{}"),))


def work(ident: int) -> Work:
    return Work(ident, "s", 1, 1, 0, WorkKind.WARM, WorkClass.SPECULATION)


def reading(*, wanted: bool = True) -> Reading:
    return Reading(count(10), wanted=wanted, least_words=4)


def test_it_goes_on_step_by_step_until_all_is_read() -> None:
    """Only the first step says what; one that is not its own moves nothing."""
    one = reading()
    task = Think((SYSTEM, Line("user", "so far")), 1)
    assert one.begin(work(1), [SYSTEM], "so far") == [Submit(work(1), task)]
    assert one.on_step(work(7), finished=False) == []
    assert one.on_step(work(1), finished=False) == [Submit(work(10))]
    assert one.on_step(work(10), finished=True) == []
    assert one.stop() == []


def test_a_new_reading_replaces_the_one_before() -> None:
    one = reading()
    one.begin(work(1), [SYSTEM])
    assert one.begin(work(2), [SYSTEM])[0] == Withdraw(work(1))
    assert one.on_step(work(1), finished=False) == []


def test_it_makes_way() -> None:
    """What waits is taken back; what runs brings nothing more."""
    one = reading()
    one.begin(work(1), [SYSTEM])
    assert one.stop() == [Withdraw(work(1))]
    assert one.on_step(work(1), finished=False) == []


def test_a_few_new_words_are_not_worth_a_step() -> None:
    """Counted from what was read last; a turn begins anew."""
    one = reading()
    one.begin(work(1), [SYSTEM])
    assert not one.is_worth("one two three")
    assert one.is_worth("one two three four")
    one.begin(work(2), [SYSTEM], "one two three four")
    assert not one.is_worth("one two three four five six")
    one.begin(work(3), [SYSTEM])
    assert one.is_worth("four words once more")


def test_nothing_is_read_where_it_would_not_be_kept() -> None:
    one = reading(wanted=False)
    assert one.begin(work(1), [SYSTEM]) == []
    assert not one.is_worth("one two three four five")


def test_whether_it_pays_can_change() -> None:
    one = reading(wanted=False)
    assert one.begin(work(1), [SYSTEM]) == []
    one.on_wanted(True)
    assert one.begin(work(2), [SYSTEM], tools=TOOLS) == [
        Submit(work(2), Think((SYSTEM, Line("user", "")), 1, tools=TOOLS))
    ]
