"""Points of a sweep: counted from what became of callers, told as a table, drawn, and held against what is to be
shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, inf, isfinite
from pathlib import Path
from typing import Any

from caller import Asked, Played
from curve import Series, write_svg

PROMISED = 0.99
STALL_S = 0.02
"""An answer that stands still for longer is heard to do so."""


def counted(played: Iterable[Played]) -> list[Asked]:
    return [asked for one in played for asked in one.asked if asked.counts]


def met_rate(played: Iterable[Played]) -> float:
    turns = counted(played)
    return sum(asked.kept for asked in turns) / max(1, len(turns))


def percentile(values: Sequence[float], q: float) -> float | None:
    """Of all of them; None where there are none, and where it is infinite."""
    if not values:
        return None
    value = sorted(values)[min(len(values) - 1, ceil(q * len(values)) - 1)]
    return round(value, 1) if isfinite(value) else None


def point(policy: str, offered: float, seconds: Sequence[float], played: Sequence[Played]) -> dict[str, Any]:
    """`seconds`: how long each of `played` was counted."""
    turns = counted(played)
    kept = sum(asked.kept for asked in turns)
    verdicts = [asked.record.verdict.value for asked in turns if asked.record is not None]
    refused = sum(sum(one.refused.values()) for one in played)
    admitted = sum(one.admitted for one in played)
    felt_ms = [1000 * asked.felt_s for asked in turns]
    rates = [met_rate([one]) for one in played]
    stalled = sum(asked.record is not None and asked.record.stalled_s > STALL_S for asked in turns)
    asked = [asked for one in played for asked in one.asked if not asked.refused]
    goodputs = [sum(a.kept for a in counted([one])) / one_s for one_s, one in zip(seconds, played, strict=True)]
    return {
        "policy": policy,
        "offered": offered,
        "admitted": admitted,
        "met_rate": round(kept / max(1, len(turns)), 4),
        "met_rate_seeds": [round(min(rates), 4), round(max(rates), 4)],
        "goodput": round(kept / sum(seconds), 3),
        "goodput_seeds": [round(min(goodputs), 3), round(max(goodputs), 3)],
        "refused": refused,
        "refused_rate": round(refused / max(1, refused + admitted), 4),
        "refused_turns": verdicts.count("refused"),
        "masked": verdicts.count("masked"),
        "degraded": verdicts.count("degraded"),
        "refusal_p99_ms": None,
        "given_up_rate": round(1 - len(turns) / max(1, len(asked)), 4),
        "stalled_rate": round(stalled / max(1, len(turns)), 4),
        "felt_p50_ms": percentile(felt_ms, 0.5),
        "felt_p99_ms": percentile(felt_ms, 0.99),
        "turns": len(turns),
        "most_sessions": max(one.most for one in played),
        "false_admits": round(1 - kept / max(1, len(turns)), 4),
    }


def shown(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What `deadline` is to show, and whether it does: value, bound, held."""
    own = {one["offered"]: one for one in points if one["policy"] == "deadline"}
    if not own:
        return {}
    peak = max(one["goodput"] for one in own.values())
    best = max(points, key=lambda one: one["goodput"])
    kept = [one["goodput"] for one in points if one["met_rate"] >= PROMISED]
    refusals = [one["refusal_p99_ms"] for one in own.values() if one["refusal_p99_ms"] is not None]
    rows = {
        "met_rate, the least": (min(one["met_rate"] for one in own.values()), PROMISED),
        f"peak goodput over the best ({best['policy']} at {best['offered']}x)": (peak / best["goodput"], 0.9),
        "peak goodput over the best of points that keep 99 %": (peak / max(kept, default=inf), 0.9),
    }
    if 2.0 in own:
        rows["goodput at 2x over its peak"] = (own[2.0]["goodput"] / peak, 0.95)
    told = {name: [round(value, 4), bound, value >= bound] for name, (value, bound) in rows.items()}
    if 0.5 in own:
        rate = own[0.5]["refused_rate"]
        told["refused at 0.5x"] = [rate, 0.01, rate <= 0.01]
    if refusals:
        told["refusals p99, ms"] = [max(refusals), 10.0, max(refusals) < 10.0]
    return told


def table(points: Sequence[dict[str, Any]]) -> str:
    heads = ("policy", "offered", "turns", "admitted", "refused", "met_rate", "met_rate_seeds", "goodput")
    heads += (
        "goodput_seeds",
        "masked",
        "given_up_rate",
        "stalled_rate",
        "felt_p50_ms",
        "felt_p99_ms",
        "refusal_p99_ms",
    )
    rows = [heads, *([str(one[head]) for head in heads] for one in points)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def draw(path: Path, points: Sequence[dict[str, Any]]) -> None:
    series = []
    for policy in dict.fromkeys(one["policy"] for one in points):
        own = [one for one in points if one["policy"] == policy]
        name = f"{policy}: {100 * min(one['met_rate'] for one in own):.1f} % in time at worst"
        series.append(Series(name, tuple((one["offered"], one["goodput"], "") for one in own), line=True))
    title = "Turns in time per second, under load"
    write_svg(path, series, title, "offered load (1: without admission, 1 % are late)", "turns in time per second")
