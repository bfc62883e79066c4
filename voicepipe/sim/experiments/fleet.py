"""`fleet`: devices for a mix of shapes, in one pool or in one for each shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def shapes_of(setting: Setting) -> dict[str, Shape]:
    """Those of the file that was named, else those that come along. Raises ConfigError."""
    return parse_shapes(_text(setting.shapes, "shapes")) if setting.shapes else shipped_shapes()


def _text(path: str, field: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
        raise ConfigError(f"{field}: {path} cannot be read: {reason}", field=field) from None


def _traced(setting: Setting, shapes: Mapping[str, Shape]) -> list[Turn]:
    turns = parse_trace(_text(setting.trace, "trace").splitlines())
    strange = sorted({turn.shape for turn in turns} - shapes.keys())
    if strange:
        text = f"no shape `{strange[0]}`, whose objective would be needed; known are {', '.join(shapes)}"
        raise ConfigError(f"trace: {text}", field="trace.shape")
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
        for pool in (ONE_POOL, *pools) if len(pools) > 1 else pools:
            bound_by = _needs(_of_pool(by_shape, pool), seconds, shapes).bound_by
            found.append({"mix": mix, "pool": pool, "bound_by": bound_by})
    return found


def run(point: Point, seed: int, setting: Setting) -> Measured:
    shapes = shapes_of(setting)
    by_shape, seconds = _turns(str(point["mix"]), seed, setting)
    turns = _of_pool(by_shape, str(point["pool"]))
    needs = _needs(turns, seconds, shapes)
    objectives = {name: shape.objective for name, shape in shapes.items()}
    found = devices_needed(turns, objectives, SMALL, max(1, ceil(needs.busy_devices)))
    return {
        "devices": found,
        "can_be_met": float(found is not None),
        "decode_devices": needs.decode_s,
        "prefill_devices": needs.prefill_s,
        "memory_devices": needs.memory_devices,
        "latency_devices": needs.latency_devices,
        "cache_saves_devices": needs.saved_s,
        "idle_gb": needs.idle_gb_s,
        "requests_s": needs.requests,
    }


def _number(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else 0.0


def _stacks(rows: Sequence[Row]) -> tuple[tuple[Series, ...], tuple[str, ...]]:
    """For each mix two columns: the one pool, and the others one on the other."""
    mixes = list(dict.fromkeys(str(row["mix"]) for row in rows))
    categories = tuple(f"{mix}: {kind}" for mix in mixes for kind in ("one pool", "a pool for each shape"))
    series = []
    for pool in dict.fromkeys(str(row["pool"]) for row in rows):
        heights = [0.0] * len(categories)
        for row in rows:
            if row["pool"] == pool:
                place = 2 * mixes.index(str(row["mix"])) + (pool != ONE_POOL)
                heights[place] = _number(row, "devices")
        series.append(Series(pool, tuple(map(float, range(len(categories)))), tuple(heights), kind="stack"))
    return tuple(series), categories


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
