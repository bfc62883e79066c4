"""The shape of a workload: what a request per second is made of. Five come along (shapes.toml); others are read
from TOML of the same form.

A shape's sessions begin at random or at intervals, have some turns, and are idle between them: a person reads, a
tool runs. Every turn shows the model a prefix that all sessions share, the session's history, and something new.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from math import ceil

from voicepipe.errors import ConfigError
from voicepipe.sim.spread import Spread, parse_spread
from voicepipe.sim.tables import Table

ARRIVALS = ("poisson", "regular", "bursty")
PATCH_PIXELS = 28
MAX_TOKENS = 1_048_576
MAX_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Image:
    width: int
    height: int
    crops: int
    """Shown beside the whole at the same size each."""
    share: float
    """Of the turns that have one."""
    repeats: float
    """Of the images that have been shown before, by anybody."""

    @property
    def tokens(self) -> int:
        return image_tokens(self.width, self.height, self.crops)


@dataclass(frozen=True, slots=True)
class Objective:
    """At the 95th percentile over the requests."""

    first_token_s: float
    """From arrival; thoughts are tokens too."""
    token_s: float
    """Mean time between a request's tokens."""
    clause_tokens: int = 1
    clause_s: float | None = None
    """From arrival to so many tokens of the answer; None: no limit."""


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    about: str
    requests_s: float
    """Turns per second, of all its sessions together, unless an experiment says otherwise."""
    arrivals: str
    """Of sessions: "poisson"; "regular", at equal intervals; "bursty", at intervals of a gamma distribution."""
    burstiness: float
    """Standard deviation of bursty intervals by their mean; 1 is "poisson"."""
    turns: Spread
    shared_prefix_tokens: int
    """Instructions and tools, the same in all sessions."""
    prompt_tokens: Spread
    """New text of a turn."""
    thinking_tokens: Spread
    """Produced before the answer, and not a part of the history."""
    answer_tokens: Spread
    gap_s: Spread
    """From the end of a reply to the next turn, where a person is what is waited for."""
    tool_share: float
    """Of the turns that end in the call of a tool, whose result is the next turn."""
    tool_s: Spread
    image: Image | None
    objective: Objective


def image_tokens(width: int, height: int, crops: int = 0, patch: int = PATCH_PIXELS) -> int:
    """Of a picture in pixels: ceil(width / patch) x ceil(height / patch), once more for each crop."""
    return ceil(width / patch) * ceil(height / patch) * (1 + crops)


def parse_shapes(text: str) -> dict[str, Shape]:
    """A table for each shape, whose name is the shape's. Raises ConfigError, whose `field` is the dotted key."""
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # also a number of thousands of digits
        raise ConfigError(f"shapes: not TOML: {exc}", field="shapes") from None
    if not values:
        raise ConfigError("shapes: expected a table for each shape, such as [chat]", field="shapes")
    for name in values:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"shapes: expected names of up to 40 letters, digits, - and _, got {name!r}", field="shapes"
            )
    return {name: _shape(name, table) for name, table in values.items()}


def shipped_shapes() -> dict[str, Shape]:
    """chat, reasoning, agent, vision and voice."""
    return parse_shapes(files("voicepipe.sim").joinpath("shapes.toml").read_text(encoding="utf-8"))


_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
_KEYS = (
    "about",
    "requests_s",
    "arrivals",
    "burstiness",
    "turns",
    "shared_prefix_tokens",
    "prompt_tokens",
    "thinking_tokens",
    "answer_tokens",
    "gap_s",
    "tool_share",
    "tool_s",
    "image",
    "objective",
)


def _shape(name: str, values: object) -> Shape:
    table = Table(values, name, _KEYS)
    return Shape(
        name=name,
        about=table.text("about"),
        requests_s=table.number("requests_s", 0.001, 10_000),
        arrivals=table.word("arrivals", ARRIVALS, "poisson"),
        burstiness=table.number("burstiness", 0.1, 20, 1),
        turns=parse_spread(table, "turns", 1000, 1, low=1),
        shared_prefix_tokens=table.whole("shared_prefix_tokens", 0, MAX_TOKENS, 0),
        prompt_tokens=parse_spread(table, "prompt_tokens", MAX_TOKENS),
        thinking_tokens=parse_spread(table, "thinking_tokens", MAX_TOKENS, 0),
        answer_tokens=parse_spread(table, "answer_tokens", MAX_TOKENS),
        gap_s=parse_spread(table, "gap_s", MAX_SECONDS, 0),
        tool_share=table.number("tool_share", 0, 1, 0),
        tool_s=parse_spread(table, "tool_s", MAX_SECONDS, 0),
        image=_image(table.value("image"), table.field("image")) if "image" in table else None,
        objective=_objective(table.value("objective"), table.field("objective")),
    )


def _image(values: object, name: str) -> Image:
    table = Table(values, name, ("width", "height", "crops", "share", "repeats"))
    return Image(
        width=table.whole("width", 1, 16_384),
        height=table.whole("height", 1, 16_384),
        crops=table.whole("crops", 0, 64, 0),
        share=table.number("share", 0, 1, 1),
        repeats=table.number("repeats", 0, 1, 0),
    )


def _objective(values: object, name: str) -> Objective:
    table = Table(values, name, ("first_token_s", "token_s", "clause_tokens", "clause_s"))
    if "clause_tokens" in table and "clause_s" not in table:
        raise table.wrong("clause_s", "a limit for the clause of clause_tokens")
    return Objective(
        first_token_s=table.number("first_token_s", 0.001, MAX_SECONDS),
        token_s=table.number("token_s", 0.0001, 60),
        clause_tokens=table.whole("clause_tokens", 1, 1000, 1),
        clause_s=table.number("clause_s", 0.001, MAX_SECONDS) if "clause_s" in table else None,
    )
