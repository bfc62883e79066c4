"""Turns as they arrive: made from a shape by chance, or read from a trace.

Arrivals are open: when a turn comes is fixed beforehand, from when the reply before it was meant to end, and no
device that is late can put it off. All arms of an experiment meet the same turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from voicepipe.errors import ConfigError
from voicepipe.sim.shapes import MAX_SECONDS, MAX_TOKENS, Shape
from voicepipe.sim.tables import Table

READ_TOKEN_S = 0.02
"""How long a token of a reply is meant to take, thoughts included."""
MAX_TRACE_TURNS = 1_000_000


@dataclass(frozen=True, slots=True)
class Turn:
    at_s: float
    shape: str
    session: str
    number: int
    """From 1 in its session."""
    prefix_tokens: int
    """Shared with all sessions of its shape."""
    history_tokens: int
    """Of the session's earlier turns: without thoughts."""
    new_tokens: int
    """Text and picture."""
    thinking_tokens: int
    answer_tokens: int
    image_tokens: int = 0
    """Of the new ones."""
    image: int | None = None
    """Which picture; the same number is the same picture."""
    tool: bool = False
    """It ends in the call of a tool."""

    @property
    def prompt_tokens(self) -> int:
        return self.prefix_tokens + self.history_tokens + self.new_tokens

    @property
    def output_tokens(self) -> int:
        return self.thinking_tokens + self.answer_tokens


def traffic(shape: Shape, until_s: float, rng: Random, requests_s: float | None = None) -> list[Turn]:
    """Turns from 0 to `until_s` in order of time; `requests_s` in the mean, else the shape's own rate.

    Sessions have begun long before 0, so that their number is steady from the first moment."""
    rate = (shape.requests_s if requests_s is None else requests_s) / shape.turns.mean
    lead_s = 3 * shape.turns.mean * _cycle_s(shape)
    pictures, turns = _Pictures(shape), list[Turn]()
    for serial, start_s in enumerate(_starts(shape, rate, lead_s + until_s, rng)):
        # a generator for each session: one that draws more often does not change the others
        own = Random(rng.getrandbits(64))
        turns += [
            turn
            for turn in _session(shape, f"{shape.name}-{serial}", start_s - lead_s, own, pictures)
            if 0 <= turn.at_s < until_s
        ]
    return sorted(turns, key=lambda turn: (turn.at_s, turn.session, turn.number))


def _cycle_s(shape: Shape) -> float:
    """From one turn of a session to its next, in the mean."""
    idle = shape.tool_share * shape.tool_s.mean + (1 - shape.tool_share) * shape.gap_s.mean
    return idle + READ_TOKEN_S * (shape.thinking_tokens.mean + shape.answer_tokens.mean)


def _starts(shape: Shape, rate: float, until_s: float, rng: Random) -> Iterator[float]:
    now = rng.random() / rate if shape.arrivals == "regular" else 0.0
    while True:
        if shape.arrivals == "poisson":
            now += rng.expovariate(rate)
        elif shape.arrivals == "bursty":
            shape_k = 1 / shape.burstiness**2
            now += rng.gammavariate(shape_k, 1 / (rate * shape_k))
        if now >= until_s:
            return
        yield now
        if shape.arrivals == "regular":
            now += 1 / rate


class _Pictures:
    """Which have been shown: those that repeat are among the first ones more often than among the later."""

    def __init__(self, shape: Shape) -> None:
        self._image = shape.image
        self._shown = 0

    def next(self, rng: Random) -> int | None:
        if self._image is None or rng.random() >= self._image.share:
            return None
        if self._shown and rng.random() < self._image.repeats:
            return int(self._shown ** rng.random()) - 1
        self._shown += 1
        return self._shown - 1


def _session(shape: Shape, name: str, at_s: float, rng: Random, pictures: _Pictures) -> Iterator[Turn]:
    history = 0
    for number in range(1, shape.turns.whole(rng, least=1) + 1):
        picture = pictures.next(rng)
        image_tokens = shape.image.tokens if shape.image is not None and picture is not None else 0
        turn = Turn(
            at_s=at_s,
            shape=shape.name,
            session=name,
            number=number,
            prefix_tokens=shape.shared_prefix_tokens,
            history_tokens=history,
            new_tokens=shape.prompt_tokens.whole(rng, least=1) + image_tokens,
            thinking_tokens=shape.thinking_tokens.whole(rng),
            answer_tokens=shape.answer_tokens.whole(rng, least=1),
            image_tokens=image_tokens,
            image=picture,
            tool=rng.random() < shape.tool_share,
        )
        yield turn
        history += turn.new_tokens + turn.answer_tokens
        at_s += READ_TOKEN_S * turn.output_tokens + (shape.tool_s if turn.tool else shape.gap_s).sample(rng)


_TRACE_KEYS = (
    "at_s",
    "session",
    "shape",
    "prompt_tokens",
    "prefix_tokens",
    "thinking_tokens",
    "answer_tokens",
    "image_tokens",
    "image",
    "tool",
)


def parse_trace(lines: Iterable[str]) -> list[Turn]:
    """A JSON object a line, in order of time: `{"at_s": 0.5, "prompt_tokens": 900, "answer_tokens": 120}`, and with
    `session` (any text) what belongs together; a prompt begins with the one before it and its answer, as far as it
    is that long. Raises ConfigError, whose `field` is the line and the key."""
    turns, last = list[Turn](), dict[str, Turn]()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        turn = _traced(line, f"line {number}", last)
        if turns and turn.at_s < turns[-1].at_s:
            text = f"no less than {turns[-1].at_s:g}, that of the line before"
            raise ConfigError(f"line {number}.at_s: expected {text}", field=f"line {number}.at_s")
        if len(turns) == MAX_TRACE_TURNS:
            raise ConfigError(f"line {number}: more than {MAX_TRACE_TURNS} turns", field=f"line {number}")
        turns.append(turn)
        last[turn.session] = turn
    if not turns:
        raise ConfigError("trace: expected a JSON object a line, and there is none", field="trace")
    return turns


def _traced(line: str, name: str, last: dict[str, Turn]) -> Turn:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}: not JSON", field=name) from None
    table = Table(values, name, _TRACE_KEYS)
    session = table.text("session") or name
    shape = table.text("shape") or "trace"
    before = last.get(session)
    prompt = table.whole("prompt_tokens", 1, MAX_TOKENS)
    prefix = table.whole("prefix_tokens", 0, prompt - 1, 0)
    known = before.history_tokens + before.new_tokens + before.answer_tokens if before is not None else 0
    history = min(known, prompt - prefix - 1)
    return Turn(
        at_s=table.number("at_s", 0, 365 * MAX_SECONDS),
        shape=shape,
        session=session,
        number=before.number + 1 if before is not None else 1,
        prefix_tokens=prefix,
        history_tokens=history,
        new_tokens=prompt - prefix - history,
        thinking_tokens=table.whole("thinking_tokens", 0, MAX_TOKENS, 0),
        answer_tokens=table.whole("answer_tokens", 1, MAX_TOKENS),
        image_tokens=table.whole("image_tokens", 0, prompt, 0),
        image=table.whole("image", 0, 2**53) if "image" in table else None,
        tool=table.flag("tool"),
    )
