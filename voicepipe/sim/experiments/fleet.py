"""`fleet`: devices for a mix of shapes, in one pool or in one for each shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from random import Random

from voicepipe.errors import ConfigError
from voicepipe.sim.demand import Demand, demand
from voicepipe.sim.experiment import Chart, Experiment, Measured, Point, Row, Series, Setting
from voicepipe.sim.gpu import SMALL
from voicepipe.sim.shapes import Shape, parse_shapes, shipped_shapes
from voicepipe.sim.sizing import devices_needed
from voicepipe.sim.traffic import Turn, parse_trace, traffic

ONE_POOL = "one for all"
MIXES: Mapping[str, Mapping[str, float]] = {
    "as they are": {},
    "more chat": {"chat": 4.0},
    "more reasoning": {"reasoning": 3.0},
    "more agents": {"agent": 3.0},
}
"""By which shapes' rates are multiplied."""
QUICK_SCALE = 0.3
"""Of all rates."""
QUICK_S, FULL_S = 200.0, 400.0
FEWEST = 20
"""Requests of a shape in a run, below which nothing can be said about it."""
LEFT_TOKENS = 4096
"""Of a device's memory, that a shared prefix leaves for a request."""
MOST_PREFIX_TOKENS = SMALL.kv_tokens - LEFT_TOKENS


def shapes_of(setting: Setting) -> dict[str, Shape]:
    """Those of the file that was named, else those that come along. Raises ConfigError, which names the file."""
    if not setting.shapes:
        return shipped_shapes()
    with _named(setting.shapes):
        shapes = parse_shapes(_text(setting.shapes, "shapes"))
        for name, shape in shapes.items():
            _check_prefix(f"{name}.shared_prefix_tokens", shape.shared_prefix_tokens)
            if QUICK_S * shape.requests_s < FEWEST and not setting.trace:
                least = f"at least {FEWEST / QUICK_S:g}, or there is next to nothing in the {QUICK_S:g} s of a run"
                field = f"{name}.requests_s"
                raise ConfigError(f"{field}: expected {least}, got {shape.requests_s:g}", field=field)
        return shapes


def _check_prefix(field: str, tokens: int) -> None:
    """Raises ConfigError where it does not fit into a device beside a request."""
    if tokens > MOST_PREFIX_TOKENS:
        text = f"at most {MOST_PREFIX_TOKENS} tokens, what a device has memory for beside a request, got {tokens}"
        raise ConfigError(f"{field}: expected {text}", field=field)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors about what is in a file say in which one."""
    try:
        yield
    except ConfigError as exc:
        told = exc.message if path in exc.message else f"{path}: {exc.message}"
        raise ConfigError(told, field=exc.field) from None


def _text(path: str, field: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
        raise ConfigError(f"{field}: {path} cannot be read: {reason}", field=field) from None


def _traced(setting: Setting, shapes: Mapping[str, Shape]) -> list[Turn]:
    with _named(setting.trace):
        turns = parse_trace(_text(setting.trace, "trace").splitlines())
        strange = sorted({turn.shape for turn in turns} - shapes.keys())
        if strange:
            text = f"no shape {strange[0]!r}, whose objective would be needed; known are {', '.join(shapes)}"
            raise ConfigError(f"trace: {text}", field="trace.shape")
        for number, turn in enumerate(turns, 1):
            _check_prefix(f"turn {number}.prefix_tokens", turn.prefix_tokens)
        return turns


def _turns(mix: str, seed: int, setting: Setting) -> tuple[dict[str, list[Turn]], float]:
    """By shape, and for how many seconds. A trace is the same for all seeds."""
    shapes = shapes_of(setting)
    if setting.trace:
        traced = _traced(setting, shapes)
        return {name: [turn for turn in traced if turn.shape == name] for name in shapes}, traced[-1].at_s or 1.0
    seconds = FULL_S if setting.full else QUICK_S
    scale = 1.0 if setting.full or setting.shapes else QUICK_SCALE
    return {
        name: traffic(
            shape, seconds, Random(f"{seed} {name}"), shape.requests_s * scale * MIXES[mix].get(name, 1.0)
        )
        for name, shape in shapes.items()
    }, seconds


def _needs(turns: Sequence[Turn], seconds: float, shapes: Mapping[str, Shape]) -> Demand:
    """By the strictest objective among the shapes."""
    objectives = [shapes[name].objective for name in dict.fromkeys(turn.shape for turn in turns)]
    strictest = min(objectives, key=lambda one: one.clause_s if one.clause_s is not None else one.first_token_s)
    return demand(turns, seconds, SMALL, strictest)


def _of_pool(by_shape: Mapping[str, Sequence[Turn]], pool: str) -> list[Turn]:
    chosen = by_shape.values() if pool == ONE_POOL else [by_shape[pool]]
    return sorted((turn for turns in chosen for turn in turns), key=lambda turn: (turn.at_s, turn.session))


def points(setting: Setting) -> Sequence[Point]:
    """`bound_by` is by formula, of the first seed's turns."""
    mixes = ["trace"] if setting.trace else list(MIXES) if setting.full and not setting.shapes else ["as they are"]
    shapes, found = shapes_of(setting), list[Point]()
    for mix in mixes:
        by_shape, seconds = _turns(mix, 0, setting)
        pools = [name for name, turns in by_shape.items() if turns]
        for name in by_shape.keys() - set(pools) if not setting.trace else ():
            field = f"{name}.requests_s"
            told = f"{setting.shapes}: {field}: so few that none comes in the {seconds:g} s of a run"
            raise ConfigError(told, field=field)
        for pool in (ONE_POOL, *pools) if len(pools) > 1 else pools:
            bound_by = _needs(_of_pool(by_shape, pool), seconds, shapes).bound_by
            found.append({"mix": mix, "pool": pool, "bound_by": bound_by})
    return found


_MEASURES = (
    "devices",
    "can_be_met",
    "decode_devices",
    "prefill_devices",
    "memory_devices",
    "latency_devices",
    "cache_saves_devices",
    "idle_gb",
    "requests_s",
)


def run(point: Point, seed: int, setting: Setting) -> Measured:
    shapes = shapes_of(setting)
    by_shape, seconds = _turns(str(point["mix"]), seed, setting)
    turns = _of_pool(by_shape, str(point["pool"]))
    if not turns:
        return dict.fromkeys(_MEASURES)  # a seed without a single session of a rare shape
    needs = _needs(turns, seconds, shapes)
    objectives = {name: shape.objective for name, shape in shapes.items()}
    found = devices_needed(turns, objectives, SMALL, max(1, ceil(needs.busy_devices)))
    measured = (
        found,
        float(found is not None),
        needs.decode_s,
        needs.prefill_s,
        needs.memory_devices,
        needs.latency_devices,
        needs.saved_s,
        needs.idle_gb_s,
        needs.requests,
    )
    return dict(zip(_MEASURES, measured, strict=True))


def _number(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else 0.0


def _stacks(rows: Sequence[Row]) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """For each mix a column for the one pool, if there is one, and one for the others, one on the other."""
    columns: dict[tuple[str, bool], str] = {}
    for row in rows:
        mix, is_one = str(row["mix"]), row["pool"] == ONE_POOL
        columns[mix, is_one] = f"{mix}: {'one pool' if is_one else 'a pool for each shape'}"
    keys = sorted(
        columns, key=lambda key: (list(dict.fromkeys(mix for mix, _ in columns)).index(key[0]), not key[1])
    )
    series = []
    for pool in dict.fromkeys(str(row["pool"]) for row in rows):
        heights = [0.0] * len(keys)
        for row in rows:
            if row["pool"] == pool:
                heights[keys.index((str(row["mix"]), pool == ONE_POOL))] = _number(row, "devices")
        series.append(Series(pool, tuple(map(float, range(len(keys)))), tuple(heights), kind="stack"))
    return tuple(series), tuple(columns[key] for key in keys)


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    stacks, columns = _stacks(rows)
    first = [row for row in rows if row["mix"] == rows[0]["mix"] and row["pool"] != ONE_POOL]
    places = tuple(map(float, range(len(first))))

    def bars(name: str, column: str) -> Series:
        lows = tuple(_number(row, f"{column}_low" if f"{column}_low" in row else column) for row in first)
        highs = tuple(_number(row, f"{column}_high" if f"{column}_high" in row else column) for row in first)
        return Series(name, places, tuple(_number(row, column) for row in first), lows, highs, "bars")

    constraints = (
        ("needed, simulated", "devices"),
        ("tokens to write", "decode_devices"),
        ("prompts to read", "prefill_devices"),
        ("memory full", "memory_devices"),
        ("small batches for latency", "latency_devices"),
    )
    return [
        Chart(
            title="Devices for the same requests: one pool for all shapes, or a pool for each",
            x="mix of shapes and division into pools",
            y="devices",
            series=stacks,
            categories=columns,
        ),
        Chart(
            title="What binds each shape: the devices that each of its needs would keep busy",
            x="shape (what binds it)",
            y="devices",
            series=tuple(bars(name, column) for name, column in constraints),
            categories=tuple(f"{row['pool']} ({row['bound_by']})" for row in first),
        ),
    ]


EXPERIMENT = Experiment(
    name="fleet",
    question="How many devices does a mix of shapes need, in one pool or in several, and what binds each shape?",
    explanation=(
        "Five shapes of work, or those of a file of one's own, arrive at their rates (a quick run of the five: at "
        f"{QUICK_SCALE:g} of them). For one pool that serves them all, and for a pool for each, the fewest "
        "devices are searched by simulation with which 95 % of every shape's requests meet its objective; requests "
        "go where the least is to be waited for. The table "
        "says for each pool what binds it, by formula: decode (tokens to write), prefill (prompts to read), "
        "memory (it is full before slots are) or latency (batches have to stay smaller than they could be), "
        "with the devices that each of these would keep busy, what the cache of prefixes saves, and the "
        "devices found, with an interval over the seeds. In one pool the strictest objective holds for all: a "
        "first clause of voice within 45 ms does not go together with chunks of others' prompts, which take 64 "
        "ms, so that devices stand nearly idle to keep them apart."
    ),
    points=points,
    run=run,
    charts=charts,
    seeds=20,
    reads=frozenset({"shapes", "trace"}),
)
