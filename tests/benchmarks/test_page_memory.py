"""When a page's memory is called flat."""

from __future__ import annotations

import os

from page_memory import Use, growth, renderers_mib


def use(minute: float, heap_mib: float) -> Use:
    return Use(minute, 1, heap_mib, 1.0, 100, 80.0)


def test_growth_is_that_of_the_second_half() -> None:
    filling = [use(0.5 * n, float(n)) for n in range(1, 9)]
    flat = [use(0.5 * n, 8.0 + 0.01 * (n % 2)) for n in range(9, 17)]
    assert abs(growth(filling + flat)) < 0.01
    assert growth(filling) == 2.0


def test_pages_of_other_programs_do_not_count() -> None:
    assert renderers_mib(os.getpid()) == 0.0
