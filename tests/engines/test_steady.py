"""When an engine does with one thread."""

from __future__ import annotations

from voicepipe.engines.steady import CALM_STEPS, STALLED, Steadier


def steadied(*steps: tuple[int, float], threads: int = 2) -> Steadier:
    one = Steadier(threads)
    for tokens, seconds in steps:
        one.on_step(tokens, seconds)
    return one


def test_all_threads_work_while_steps_are_alike() -> None:
    """The first one, slow because everything is cold, sets no standard for long."""
    assert Steadier(2).threads == 2
    assert steadied((1, 0.5), *[(1, 0.007), (1, 0.02)] * 50).threads == 2


def test_a_step_that_stalls_leaves_one_thread() -> None:
    """Whoever holds the other core goes on holding it, most likely."""
    assert steadied((1, 0.007), (1, 0.007 * STALLED * 1.1)).threads == 1


def test_steps_are_compared_with_their_own_size() -> None:
    """Sixteen tokens are no stall of one."""
    assert steadied((1, 0.007), (16, 0.050)).threads == 2
    assert steadied((1, 0.007), (16, 0.050), (16, 0.5)).threads == 1


def test_all_threads_are_tried_again_after_a_while() -> None:
    """What steps take meanwhile says nothing: they have one thread."""
    stalled = [(1, 0.007), (1, 5.0)]
    assert steadied(*stalled, *[(1, 0.012)] * (CALM_STEPS - 1)).threads == 1
    again = steadied(*stalled, *[(1, 0.012)] * CALM_STEPS)
    assert again.threads == 2
    again.on_step(1, 5.0)
    assert again.threads == 1


def test_a_single_thread_stays_one() -> None:
    assert steadied((1, 0.007), (1, 5.0), threads=1).threads == 1
