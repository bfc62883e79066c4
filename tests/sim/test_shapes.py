"""Five shapes come along, and others are read with what is wrong in them named."""

from __future__ import annotations

import pytest

from voicepipe.errors import ConfigError
from voicepipe.sim.shapes import Image, image_tokens, parse_shapes, shipped_shapes
from voicepipe.sim.spread import Spread

LEAST = """
[mine]
requests_s = 1
prompt_tokens = 100
answer_tokens = 50
objective = { first_token_s = 1, token_s = 0.1 }
"""


def test_the_five_come_along_and_differ_in_what_they_are_about() -> None:
    shapes = shipped_shapes()
    assert list(shapes) == ["chat", "reasoning", "agent", "vision", "voice"]
    assert shapes["reasoning"].thinking_tokens.mean > 10 * shapes["reasoning"].answer_tokens.mean
    assert shapes["agent"].shared_prefix_tokens == 6000 and shapes["agent"].tool_share == 0.9
    assert shapes["vision"].image is not None and shapes["vision"].image.tokens > 5_000
    assert shapes["voice"].objective.clause_s == 0.045
    assert all(shape.about for shape in shapes.values())


def test_a_shape_needs_little_and_the_rest_has_defaults() -> None:
    shape = parse_shapes(LEAST)["mine"]
    assert (shape.arrivals, shape.turns, shape.thinking_tokens) == (
        "poisson",
        Spread("constant", 1),
        Spread("constant", 0),
    )
    assert shape.image is None and shape.objective.clause_s is None


def test_a_picture_is_patches_and_crops() -> None:
    assert image_tokens(1024, 1024) == 1369
    assert image_tokens(28, 29) == 2
    assert Image(1024, 1024, 3, 1, 0).tokens == 4 * 1369


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "shapes"),
        ("[mine", "shapes"),
        ("mine = 1", "mine"),
        (LEAST.replace("answer_tokens", "anser_tokens"), "mine.anser_tokens"),
        (LEAST.replace("requests_s = 1", "requests_s = 0"), "mine.requests_s"),
        (LEAST.replace("token_s = 0.1", "token_s = 100"), "mine.objective.token_s"),
        (LEAST.replace("token_s = 0.1", "token_s = 0.1, clause_tokens = 7"), "mine.objective.clause_s"),
        (LEAST + "turns = 0", "mine.turns"),
        (LEAST + "arrivals = 'steady'", "mine.arrivals"),
        (LEAST + "image = { width = 1024 }", "mine.image.height"),
        (LEAST + "image = 3", "mine.image"),
        (LEAST + "gap_s = { kind = 'exponential', mean = 1e9 }", "mine.gap_s.mean"),
    ],
)
def test_what_is_wrong_is_named(text: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_shapes(text)
    assert caught.value.field == field
    assert field.rpartition(".")[2] in caught.value.message


def test_the_nearest_key_is_named() -> None:
    with pytest.raises(ConfigError, match="did you mean `answer_tokens`"):
        parse_shapes(LEAST.replace("answer_tokens", "anser_tokens"))
