"""Figures as lines of a terminal: pieces of text with a style each, so that a line can be cut to any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from enum import StrEnum

from voicepipe.top.figures import LATE, Blamed, Figures, Lane

BAR = 30
"""Columns of a gap's bar."""
SPARKS = "▁▂▃▄▅▆▇█"
LEVELS = ("nothing", "replies ahead", "background", "new sessions")
NAMES = {"started": "turns", "asr": "listening", "speculation": "replies ahead", "ahead": "audio ahead"}
"""Of classes, for people."""
LABEL = 11
"""Columns of what stands at the beginning of a line."""


class Style(StrEnum):
    """What a piece of text is; the value is its code."""

    PLAIN = ""
    TITLE = "1"
    DIM = "2"
    GOOD = "32"
    BAD = "31"
    WARN = "33"
    MARK = "36"


Piece = tuple[str, Style]
Row = list[Piece]


def rendered(row: Iterable[Piece], width: int, *, colour: bool) -> str:
    """Cut to `width` columns; without colour, without any code."""
    out, left = [], width
    for text, style in row:
        text = text[:left]
        left -= len(text)
        if text:
            out.append(f"\x1b[{style}m{text}\x1b[0m" if colour and style else text)
    return "".join(out).rstrip()


def screen(rows: Sequence[Row], width: int, height: int, *, colour: bool) -> list[str]:
    """What fits: without the empty rows, if that is what it takes; of more, the last line says how many."""
    if len(rows) > height:
        rows = [row for row in rows if row]
    if len(rows) > height:
        more: Row = [(f"... {len(rows) - height + 1} more lines; a taller window shows them", Style.DIM)]
        rows = [*rows[: height - 1], more]
    return [rendered(row, width, colour=colour) for row in rows]


def frame(seen: Figures, trend_ms: Sequence[float | None], url: str, width: int) -> list[Row]:
    """From what matters most to what matters least. `trend_ms`: mean gaps, oldest first."""
    return [
        *_head(seen, url),
        [],
        *_gaps(seen, trend_ms, width),
        [],
        *_verdicts(seen),
        *_blame(seen.blame),
        [],
        *_entrance(seen),
        [],
        *_device(seen, width),
        *_ahead(seen),
        [],
        *_server(seen),
    ]


def away(url: str, why: str, away_s: float, width: int) -> list[Row]:
    wrapped = textwrap.wrap(why, max(20, width))
    return [
        [
            ("voicepipe", Style.TITLE),
            (f"  {url}  ", Style.DIM),
            ("away", Style.BAD),
            (f" for {span(away_s)}", Style.DIM),
        ],
        [],
        *([(line, Style.PLAIN)] for line in wrapped),
        [("It is asked again, and shown as soon as it answers. Ctrl-C ends.", Style.DIM)],
    ]


def span(seconds: float) -> str:
    """Such as "59 s", "3 min 05 s", "2 h 00 min", "3 d 04 h"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    for unit, size, lower, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02} {lower}"
    raise AssertionError(whole)


def sparkline(values_ms: Sequence[float | None], budget_ms: float) -> Row:
    """A column each; the budget is the middle of the height, and what is beyond it is marked. A gap of more than
    two budgets fills the column."""
    row: Row = []
    for value in values_ms:
        if value is None:
            row.append((" ", Style.PLAIN))
        else:
            step = min(len(SPARKS) - 1, int(value / max(2 * budget_ms, 1e-9) * len(SPARKS)))
            row.append((SPARKS[step], Style.GOOD if value <= budget_ms else Style.BAD))
    return row


def bar(value: float, mark: float, columns: int) -> Row:
    """From 0 to twice the mark, which is drawn; what does not fit is an arrow."""
    scale = columns / (2 * mark) if mark else 0.0
    filled, at = min(columns, round(value * scale)), round(mark * scale)
    row: Row = []
    for column in range(columns):
        over = column >= at
        if column == at:
            row.append(("│", Style.MARK))
        elif column < filled:
            row.append(("█", Style.BAD if over else Style.GOOD))
        else:
            row.append((" ", Style.PLAIN))
    if value * scale > columns:
        row[-1] = ("▶", Style.BAD)
    return row


# --- the parts


def _label(text: str) -> Piece:
    return f"{text:<{LABEL}}", Style.DIM


def _head(seen: Figures, url: str) -> list[Row]:
    state: Piece = ("ready", Style.GOOD)
    if seen.draining:
        state = ("draining", Style.WARN)
    elif not seen.ready:
        state = ("warming up", Style.WARN)
    of = "" if seen.most_sessions is None else f" of {seen.most_sessions}"
    what = "since its start" if seen.is_since_start else "last"
    since = what if seen.span_s is None else f"{what}{', ' if seen.is_since_start else ' '}{span(seen.span_s)}"
    since += " ago" if seen.is_since_start and seen.span_s is not None else ""
    head: Row = [("voicepipe ", Style.TITLE), (f"{seen.version}  {url}  ", Style.DIM), state]
    counts = f"{seen.sessions}{of} sessions"
    if seen.waiting:
        counts += f", {seen.waiting} waiting"
    return [head, [(counts, Style.PLAIN), (f"   {since}: {seen.turns} turns", Style.PLAIN)]]


def _gaps(seen: Figures, trend_ms: Sequence[float | None], width: int) -> list[Row]:
    rows: list[Row] = []
    for name, gaps in (("felt gap", seen.felt_ms), ("system gap", seen.system_ms)):
        row = [_label(name)]
        for label, gap in gaps.items():
            row += [(f"{label} ", Style.DIM), (f"{_number(gap)} ms  ", _against(gap, seen.budget_ms))]
        rows.append(row + bar(gaps["p95"] or 0.0, seen.budget_ms, BAR))
    trend = list(trend_ms)[-max(0, min(width - LABEL, 2 * BAR)) :]
    if trend:
        rows.append([_label("trend"), *sparkline(trend, seen.budget_ms)])
    told = f"{seen.budget_ms:.0f} ms (│{', and half of the height of the trend' if trend else ''})"
    if seen.achievable_ms is not None:
        style = Style.WARN if seen.achievable_ms > seen.budget_ms else Style.PLAIN
        rows.append([_label("budget"), (told, Style.MARK), (f"; unhurried {seen.achievable_ms:.0f} ms", style)])
    else:
        rows.append([_label("budget"), (told, Style.MARK)])
    return rows


def _number(value: float | None, digits: int = 0) -> str:
    return f"{'-':>5}" if value is None else f"{value:5.{digits}f}"


def _against(value: float | None, most: float) -> Style:
    if value is None:
        return Style.DIM
    return Style.GOOD if value <= most else Style.BAD


def _verdicts(seen: Figures) -> list[Row]:
    row = [_label("in time")]
    if seen.in_time is None:
        row.append(("    -", Style.DIM))
    else:
        good = Style.GOOD if seen.in_time >= 0.95 else Style.WARN if seen.in_time >= 0.9 else Style.BAD
        row.append((f"{100 * seen.in_time:4.0f} %", good))
    for name, count in sorted(seen.verdicts.items(), key=lambda item: -item[1]):
        if count:
            row.append((f"  {name} {count}", Style.BAD if name in LATE else Style.PLAIN))
    return [row]


def _blame(blames: Sequence[Blamed]) -> list[Row]:
    if not blames:
        return [[_label("blame"), ("nothing was late", Style.DIM)]]
    most = blames[0].turns
    rows: list[Row] = []
    for number, one in enumerate(blames[:5]):
        columns = max(1, round(12 * one.turns / most))
        rows.append(
            [
                _label("" if number else "blame"),
                (f"{one.stage:<9}{one.kind:<13}{one.turns:4}  ", Style.PLAIN),
                (f"{'█' * columns:<12}", Style.BAD),
                (f"  {one.mean_ms:.0f} ms over, on average", Style.DIM),
            ]
        )
    if len(blames) > 5:
        rest = sum(one.turns for one in blames[5:])
        rows.append([_label(""), (f"{len(blames) - 5} others: {rest}", Style.DIM)])
    return rows


def _entrance(seen: Figures) -> list[Row]:
    refused = "  ".join(f"{reason} {count}" for reason, count in seen.refusals.items())
    leases = "  ".join(f"{kind} {count}" for kind, count in seen.leases.items())
    uses: Row = [_label("admission")]
    for limit, use in seen.admission.items():
        uses.append((f"{limit} {100 * use:.0f} %  ", Style.WARN if use > 1.0 else Style.PLAIN))
    return [
        [_label("refused"), (refused or "nobody", Style.WARN if refused else Style.DIM)],
        [_label("leases"), (leases, Style.PLAIN)],
        *([uses] if seen.admission else []),
    ]


def _device(seen: Figures, width: int) -> list[Row]:
    columns = min(BAR, max(0, width - 40))
    return [row for name, lane in seen.device.items() for row in _lane(name, lane, columns)]


def _lane(name: str, lane: Lane, columns: int) -> list[Row]:
    filled = min(columns, round(columns * lane.busy))
    row: Row = [_label(name), (f"{100 * lane.busy:4.0f} %  ", Style.PLAIN)]
    row += [("█" * filled, Style.MARK), ("·" * (columns - filled), Style.DIM)]
    if lane.queued:
        row.append((f"  {lane.queued} wait", Style.WARN))
    shares = [(klass, share) for klass, share in lane.classes.items() if share >= 0.0005]
    if len(shares) < 2:
        return [row]
    told = "  ".join(f"{NAMES.get(klass, klass)} {_percent(share)}" for klass, share in shares)
    return [row, [_label(""), (told, Style.PLAIN)]]


def _percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.01 else 1}f} %"


def _ahead(seen: Figures) -> list[Row]:
    ahead = seen.ahead
    if ahead.hit_rate is None:
        return [[_label("ahead"), ("no turn", Style.DIM)]]
    begun = f"{100 * ahead.hit_rate:.0f} % of replies had been begun, {ahead.attempts:.1f} attempts a turn"
    share = "" if ahead.wasted_share is None else f", {100 * ahead.wasted_share:.0f} % of the device's work"
    spent = f"saved {ahead.saved_ms:.0f} ms a turn, wasted {ahead.wasted_ms:.0f} ms{share}"
    return [[_label("ahead"), (begun, Style.PLAIN)], [_label(""), (spent, Style.PLAIN)]]


def _server(seen: Figures) -> list[Row]:
    lag, age = seen.loop_lag_p99_ms, seen.input_age_p99_ms
    row: Row = [
        _label("loop lag"),
        (f"{_number(lag, 1)} ms p99", _against(lag, 10.0)),
        ("   sound waits ", Style.DIM),
        (f"{_number(age, 1).strip()} ms p99", _against(age, 100.0)),
        ("   shed ", Style.DIM),
        (LEVELS[min(seen.overload, 3)], Style.BAD if seen.overload else Style.PLAIN),
    ]
    if seen.engine_failures:
        row.append((f"   engine failures {seen.engine_failures}", Style.BAD))
    if seen.resident_mb is not None:
        row.append((f"   {seen.resident_mb:.0f} MB", Style.DIM))
    return [row]
