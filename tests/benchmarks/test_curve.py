import re

import pytest
from curve import LEFT, RIGHT, WIDTH, Series, svg, tick_step

RISING = Series("rising", ((0.0, 0.0, ""), (1.0, 2.0, ""), (3.0, 4.9, "")), line=True)
FALLING = Series("falling", ((0.1, 4.9, ""), (3.0, 0.5, "")), line=True)


def legend_x(*series: Series) -> float:
    """Where the names begin."""
    found = re.findall(rf'<text x="([\d.]+)" [^>]*>{series[0].name}</text>', svg(series, "title", "x", "y"))
    return float(found[-1])


def test_the_legend_stands_where_no_line_is() -> None:
    assert legend_x(RISING) < WIDTH / 2
    assert legend_x(FALLING) > WIDTH / 2


@pytest.mark.parametrize("one", [RISING, FALLING])
def test_a_long_name_stays_in_the_frame(one: Series) -> None:
    name = "a name of some forty letters, no fewer..."
    x = legend_x(Series(name, one.points, line=True))
    assert x > LEFT and x + 6 * len(name) < WIDTH - RIGHT


@pytest.mark.parametrize(("most", "step"), [(0.0, 1.0), (4.63, 1.0), (3.0, 0.5), (1_463.0, 500.0)])
def test_ticks_are_round(most: float, step: float) -> None:
    assert tick_step(most) == step


def test_nothing_is_no_picture() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        svg([], "title", "x", "y")
