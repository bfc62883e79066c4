"""A service model from a recorded ledger: of every kind of chunk the line that its times lie on, how they scatter
around it, and the hand-offs between loop and lane.

The line minimises the sum of the absolute relative errors (iteratively reweighted least squares), so that stalls do
not bend it; what falls with units or context is left out, because more to do makes no chunk shorter.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf, isfinite
from statistics import median
from typing import Any, NamedTuple

import msgspec

from voicepipe.core.endpoint import RATE_HZ
from voicepipe.core.events import WorkKind
from voicepipe.errors import ConfigError
from voicepipe.sim.ears import Ears
from voicepipe.sim.service import Cost, Manner, Need, ServiceModel, need_in_words

LEAST = 8
"""Chunks of a kind and variant from which on it has a line of its own."""
MOST = 4000
"""More of them are thinned out evenly."""
QUANTILES = 100
ROUNDS = 25
SEEN_S = 1e-9
_ANY: Sequence[Need] = ((WorkKind.FINAL, ""), (WorkKind.THINK, ""), (WorkKind.SPEAK, ""))
"""Without these there is no conversation; any variant of them will do."""
_HOW = (
    "To record more: voicepipe serve --ledger F.jsonl, and voicepipe talk with a dozen questions whose answers "
    "have several sentences"
)
_HOW_TEXTS = "; with --api-port, and as many texts at once as it has slots, posted to /v1/chat/completions"
_REPLY_READS = (WorkKind.WARM, WorkKind.THINK)


class Seen(NamedTuple):
    units: float
    context: float
    service_s: float


class _Chunk(NamedTuple):
    kind: WorkKind
    variant: str
    lane: str
    queued: float
    started: float
    finished: float
    units: float
    context: float
    whole: bool


def calibrate(
    lines: Iterable[str | bytes],
    *,
    name: str = "calibrated",
    manner: Manner | None = None,
    needs: Sequence[Need] = (),
) -> ServiceModel:
    """`lines`: of a ledger, one JSON object each. `manner`: how the engines cut their work, where the ledger does
    not show it. `needs`: what is going to be simulated. Raises ConfigError where a line is none of a ledger's, or
    too few chunks are in it: of what and how many more, and how they are recorded."""
    chunks: list[_Chunk] = []
    turns: list[_Turn] = []
    for number, line in enumerate(lines, 1):
        entry = _entry(number, line)
        if "chunk" in entry:
            chunks.append(_chunk(number, entry))
        elif "verdict" in entry:
            turns.append(_turn(number, entry))
    seen = _seen(chunks)
    _check_enough(seen, needs or _ANY)
    costs = tuple(_costs(seen))
    lanes = {chunk.kind: chunk.lane for chunk in chunks}
    device = lanes[WorkKind.SPEAK]
    begin_s, end_s = _hand_offs([chunk for chunk in chunks if chunk.lane == device])
    return ServiceModel(
        name=name,
        costs=costs,
        manner=_manner(chunks, manner or Manner()),
        lanes={device: 1} | dict.fromkeys(sorted(set(lanes.values()) - {device}), 1),
        placement={kind: lane for kind, lane in sorted(lanes.items()) if lane != device},
        begin_s=begin_s,
        end_s=end_s,
        send_s=_quantiles(_sends(turns), 20),
        noticed_s=_quantiles(_noticed(turns), 20),
    )


# lines


def _entry(number: int, line: str | bytes) -> Mapping[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"line {number} of the ledger is no JSON: {exc}", field=f"line {number}") from None
    if not isinstance(entry, dict):
        raise ConfigError(f"line {number} of the ledger is no object", field=f"line {number}")
    return entry


def _chunk(number: int, entry: Mapping[str, Any]) -> _Chunk:
    try:
        queued, started, finished = (float(entry[name]) for name in ("queued", "started", "finished"))
        units, context = float(entry["units"] or 0.0), float(entry["context"] or 0.0)
        kind, variant, lane = WorkKind(entry["chunk"]), str(entry["variant"] or ""), str(entry["lane"])
        whole = bool(entry["whole"])
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise ConfigError(
            f"line {number} of the ledger is no chunk's: {repr(exc)[:200]}", field=f"line {number}"
        ) from None
    if not (-inf < queued <= started <= finished < inf and 0.0 <= units < inf and 0.0 <= context < inf):
        raise ConfigError(f"line {number} of the ledger: times or sizes that cannot be", field=f"line {number}")
    return _Chunk(kind, variant, lane, queued, started, finished, units, context, whole)


class _Instants(msgspec.Struct):
    sent: float | None
    audio: float | None
    commit: float | None
    acknowledged: float | None
    soft_end: float | None


class _Turn(msgspec.Struct):
    """What is looked at of one. Milliseconds."""

    instants: _Instants
    speech_end: float | None


def _turn(number: int, entry: Mapping[str, Any]) -> _Turn:
    try:
        turn = msgspec.convert(entry, _Turn)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"line {number} of the ledger is no turn's: {exc}", field=f"line {number}") from None
    if not all(value is None or isfinite(value) for value in msgspec.structs.astuple(turn.instants)):
        raise ConfigError(f"line {number} of the ledger: times that cannot be", field=f"line {number}")
    return turn


# what chunks take


def _seen(chunks: Iterable[_Chunk]) -> Mapping[Need, Sequence[Seen]]:
    """By kind and variant, of what ran to its end and had something to do."""
    seen: dict[Need, list[Seen]] = defaultdict(list)
    for chunk in chunks:
        if chunk.whole and chunk.units:
            kind: WorkKind = WorkKind.THINK if chunk.kind is WorkKind.WARM else chunk.kind
            seen[kind, chunk.variant].append(Seen(chunk.units, chunk.context, chunk.finished - chunk.started))
    return seen


def _check_enough(seen: Mapping[Need, Sequence[Seen]], needs: Sequence[Need]) -> None:
    """Chunks without a variant stand for all of their kind; of `_ANY`, each variant does."""
    few = []
    for need in needs:
        kind, variant = need
        counts = [len(samples) for (one, other), samples in seen.items() if one is kind and other in (variant, "")]
        if needs is _ANY:
            counts = [len(samples) for (one, _), samples in seen.items() if one is kind]
        most = max(counts, default=0)
        if most < LEAST:
            few.append(f"{LEAST - most} more of {need_in_words(need)} ({most or 'none'} seen)")
    if few:
        texts = any(kind is WorkKind.GENERATE for kind, _ in needs)
        how = _HOW_TEXTS if texts else ""
        raise ConfigError(
            f"too few chunks to calibrate by, at least {LEAST} whole ones of each kind are needed: "
            f"{', '.join(few)}. {_HOW}{how}",
            field="ledger",
        )


def _costs(seen: Mapping[Need, Sequence[Seen]]) -> Iterator[Cost]:
    for (kind, variant), samples in sorted(seen.items()):
        if len(samples) >= LEAST:
            yield fitted(kind, variant, samples)


def fitted(kind: WorkKind, variant: str, samples: Sequence[Seen]) -> Cost:
    """The line, and the quantiles of actual to mean around it."""
    thinned = samples[:: max(1, len(samples) // MOST)]
    base_s, per_unit_s, per_context_s = _line(thinned)
    means = [base_s + per_unit_s * one.units + per_context_s * one.context for one in thinned]
    ratios = [one.service_s / max(mean_s, SEEN_S) for one, mean_s in zip(thinned, means, strict=True)]
    count = min(QUANTILES, len(ratios) - 1)
    return Cost(
        kind=kind,
        variant=variant,
        base_s=base_s,
        per_unit_s=per_unit_s,
        per_context_s=per_context_s,
        ratios=tuple(max(ratio, SEEN_S) for ratio in _quantiles(ratios, count)),
    )


def _line(samples: Sequence[Seen]) -> tuple[float, float, float]:
    """Seconds: of a chunk, per unit and per unit of context; none below 0."""
    columns = [(1.0, one.units, one.context) for one in samples]
    used = [0] + [index for index in (1, 2) if len({row[index] for row in columns}) > 1]
    while True:
        weights = _least_absolute([[row[index] for index in used] for row in columns], samples)
        wrong = [index for index, weight in zip(used, weights, strict=True) if weight < 0.0]
        if not wrong:
            break
        used.remove(max(wrong))  # context before units, and the base last of all
        if not used:
            return median(one.service_s for one in samples), 0.0, 0.0
    found = dict(zip(used, weights, strict=True))
    return found.get(0, 0.0), found.get(1, 0.0), found.get(2, 0.0)


def _least_absolute(rows: Sequence[Sequence[float]], samples: Sequence[Seen]) -> list[float]:
    """Weights that minimise sum |row . weights - service| / service."""
    scales = [max(map(abs, column)) or 1.0 for column in zip(*rows, strict=True)]
    scaled = [[value / scale for value, scale in zip(row, scales, strict=True)] for row in rows]
    services = [max(one.service_s, SEEN_S) for one in samples]
    trust = [1.0 / service**2 for service in services]
    weights = _least_squares(scaled, services, trust)
    for _ in range(ROUNDS):
        errors = [_dot(row, weights) / service - 1.0 for row, service in zip(scaled, services, strict=True)]
        trust = [
            1.0 / (service**2 * max(abs(error), 1e-3)) for service, error in zip(services, errors, strict=True)
        ]
        weights = _least_squares(scaled, services, trust)
    return [weight / scale for weight, scale in zip(weights, scales, strict=True)]


def _least_squares(rows: Sequence[Sequence[float]], values: Sequence[float], trust: Sequence[float]) -> list[float]:
    """By the normal equations, of which there are three at most; a little is added to the diagonal."""
    size = len(rows[0])
    total = sum(trust)
    matrix = [[0.0] * (size + 1) for _ in range(size)]
    for row, value, weight in zip(rows, values, trust, strict=True):
        for i in range(size):
            scaled = weight * row[i]
            for j in range(size):
                matrix[i][j] += scaled * row[j]
            matrix[i][size] += scaled * value
    for i in range(size):
        matrix[i][i] += 1e-9 * total
    for i in range(size):
        for other in matrix[i + 1 :]:
            factor = other[i] / matrix[i][i]
            for j in range(i, size + 1):
                other[j] -= factor * matrix[i][j]
    found = [0.0] * size
    for i in reversed(range(size)):
        known = sum(matrix[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (matrix[i][size] - known) / matrix[i][i]
    return found


def _dot(row: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(row, weights, strict=True))


# what lies around them


def _hand_offs(lane: Sequence[_Chunk]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(from a grant to the first instruction, from the last one to the loop), on one lane. The first shows where
    the lane was free; where a chunk waited for another one, both lie between them."""
    begins, between = [], []
    for before, chunk in pairwise(sorted(lane, key=lambda chunk: chunk.started)):
        if chunk.queued >= before.finished:
            begins.append(chunk.started - chunk.queued)
        elif chunk.started >= before.finished:
            between.append(chunk.started - before.finished)
    begin_s = _quantiles(begins, 20)
    between_s = _quantiles(between, len(begin_s) - 1) if between else begin_s
    left_s = [max(0.0, both - begin) for both, begin in zip(between_s, begin_s, strict=True)]
    return begin_s, tuple(sorted(left_s))


def _sends(turns: Iterable[_Turn]) -> list[float]:
    """From the instant at which the first content could go out to the socket. Seconds."""
    found = []
    for turn in turns:
        marks = turn.instants
        sent, audio, commit = marks.sent, marks.audio, marks.commit
        if sent is not None and audio is not None and commit is not None and marks.acknowledged is None:
            found.append(max(0.0, sent - max(audio, commit)) / 1000)
    return found


def _noticed(turns: Iterable[_Turn]) -> list[float]:
    """From the end of speech to the begin of the detector's first silent frame: what is left when the frame has
    been waited for, and packet and chunk at the mean. Seconds."""
    ears = Ears()
    waited_s = 1.5 * ears.frame_samples / RATE_HZ + 0.5 * ears.packet_s + ears.uplink_s
    ends = [turn.instants.soft_end for turn in turns if turn.speech_end is not None]
    return [max(0.0, end / 1000 - waited_s) for end in ends if end is not None]


def _manner(chunks: Iterable[_Chunk], manner: Manner) -> Manner:
    """With what the ledger shows of it."""
    read, written, rechecks = [0.0], [], False
    for chunk in chunks:
        if chunk.kind in _REPLY_READS and chunk.variant == "prefill":
            read.append(chunk.units)
        elif chunk.kind is WorkKind.THINK:
            written.append(chunk.units)
        rechecks |= chunk.variant == "recheck"
    values = {name: getattr(manner, name) for name in Manner.__struct_fields__} | {"rechecks": rechecks}
    if max(read) > 1:
        values["read_tokens"] = round(max(read))
    if written:
        values["write_tokens"] = max(1, round(median(written)))
    return Manner(**values)


def _quantiles(values: Sequence[float], count: int) -> tuple[float, ...]:
    """`count` + 1 of them, evenly spread from the least to the largest, to seven digits."""
    if not values:
        return (0.0,)
    ordered = sorted(values)
    last = len(ordered) - 1
    at = [index * last / count for index in range(count + 1)]
    return tuple(float(f"{_between(ordered, where):.7g}") for where in at)


def _between(ordered: Sequence[float], at: float) -> float:
    index = min(int(at), len(ordered) - 1)
    following = ordered[min(index + 1, len(ordered) - 1)]
    return ordered[index] + (at - index) * (following - ordered[index])
