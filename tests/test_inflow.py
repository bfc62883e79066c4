"""Pieces and shares, with literal times."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from voicepipe.inflow import BETWEEN_S, MAX_REST_S, PIECE_BYTES, Inflow, Transport


class Line:
    """A transport that writes down what it is asked for; parsing takes `takes_s` a piece."""

    def __init__(self, takes_s: float = 0.0) -> None:
        self.takes_s = takes_s
        self.fed: list[bytes] = []
        self.reads = True
        self.full = False
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self._used_s = 0.0
        self.inflow = Inflow(
            Transport(
                self._feed,
                lambda: setattr(self, "reads", False),
                lambda: setattr(self, "reads", True),
                lambda seconds, call: self.timers.append((seconds, call)),
                lambda: self.full,
                lambda: self._used_s,
            )
        )

    def _feed(self, data: bytes) -> None:
        self.fed.append(data)
        self._used_s += self.takes_s

    def ring(self) -> float:
        """The one timer goes off."""
        ((seconds, call),) = self.timers
        self.timers.clear()
        call()
        return seconds


def test_what_is_small_is_parsed_at_once() -> None:
    line = Line()
    for _ in range(3):
        line.inflow.on_data(b"x" * 650)
    assert line.fed == [b"x" * 650] * 3 and line.reads and not line.timers


def test_what_is_large_is_parsed_by_pieces_with_a_turn_of_the_loop_between_them() -> None:
    line, data = Line(), bytes(range(256)) * 20
    line.inflow.on_data(data)
    assert len(line.fed) == 1 and not line.reads
    assert line.ring() == BETWEEN_S and len(line.fed) == 2 and not line.reads
    assert line.ring() == BETWEEN_S
    assert b"".join(line.fed) == data and line.reads and not line.timers


def test_who_makes_it_work_for_long_waits_nine_times_as_long() -> None:
    line = Line(takes_s=0.002)
    line.inflow.on_data(b"x" * (PIECE_BYTES + 1))
    assert not line.reads
    assert line.ring() == pytest.approx(0.018)
    assert len(line.fed) == 2 and not line.reads, "its second piece cost as much"
    assert line.ring() == pytest.approx(0.018)
    assert line.reads


def test_nobody_waits_for_longer_than_a_quarter_of_a_second() -> None:
    line = Line(takes_s=3.0)
    line.inflow.on_data(b"x")
    assert line.ring() == MAX_REST_S


def test_while_what_was_parsed_is_not_taken_nothing_is_parsed() -> None:
    line = Line()
    line.full = True
    line.inflow.on_data(b"abc")
    assert line.fed == [] and not line.reads and line.inflow.held_bytes == 3
    line.full = False
    line.inflow.on_wanted()
    assert line.fed == [], "not out of the taker's own call"
    line.ring()
    assert line.fed == [b"abc"] and line.reads


def test_full_in_the_middle_of_a_read_the_rest_waits() -> None:
    line, data = Line(), b"x" * (3 * PIECE_BYTES)
    line.inflow.on_data(data)
    line.full = True
    line.ring()
    assert len(line.fed) == 1 and not line.timers
    line.full = False
    line.inflow.on_wanted()
    while line.timers:
        line.ring()
    assert b"".join(line.fed) == data and line.reads


def test_wanted_while_a_timer_runs_arms_no_other() -> None:
    line = Line(takes_s=0.01)
    line.inflow.on_data(b"x")
    line.inflow.on_wanted()
    line.inflow.on_wanted()
    assert len(line.timers) == 1


def test_what_comes_while_it_waits_is_kept_in_order() -> None:
    line = Line(takes_s=0.01)
    line.inflow.on_data(b"a")
    line.inflow.on_data(b"b")
    assert line.fed == [b"a"]
    line.ring()
    assert line.fed == [b"a", b"b"]


def test_after_the_end_nothing_is_parsed_or_asked_for() -> None:
    line = Line(takes_s=0.01)
    line.inflow.on_data(b"x" * 3 * PIECE_BYTES)
    line.inflow.on_lost()
    line.ring()
    assert len(line.fed) == 1 and not line.reads and not line.timers and line.inflow.held_bytes == 0
