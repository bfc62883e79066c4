"""A turn's waterfall for a terminal: which stage took what, against the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BAR_COLUMNS = 40
REFUSALS = {
    "late-commit": "what had been said was certain only after its deadline",
    "no-content": "nothing of the answer was ready at its deadline",
}
"""What a turn's `reason` means. A newer server may have others, which are shown as they are."""


def waterfall(stages: Mapping[str, tuple[float, float]], budget_ms: float) -> list[str]:
    """One line per stage, in order. `stages`: name to (wait, service) in ms. The scale reaches to the longer
    of the budget and the whole; waiting is drawn light, service dark, the budget as a bar."""
    total_ms = sum(wait + service for wait, service in stages.values())
    scale = BAR_COLUMNS / max(total_ms, budget_ms, 1e-9)
    lines, at = [], 0.0
    for name, (wait, service) in stages.items():
        begin, middle, end = (round(scale * t) for t in (at, at + wait, at + wait + service))
        bar = " " * begin + "░" * (middle - begin) + "█" * (end - middle)
        lines.append(f"  {name:<9}{_marked(bar, round(scale * budget_ms))} {_cost(wait, service)}")
        at += wait + service
    return lines


def _marked(bar: str, at: int) -> str:
    cells = list(bar.ljust(BAR_COLUMNS + 1))
    if cells[at] == " ":
        cells[at] = "│"
    return "".join(cells)


def _cost(wait: float, service: float) -> str:
    if wait + service == 0:
        return "     -"
    return f"{wait + service:6.0f} ms  ({wait:.0f} waiting, {service:.0f} at work)"


def turn_lines(record: Mapping[str, object], budget_ms: float) -> Sequence[str]:
    """A turn record (as `--json` prints it) for people."""
    felt = record["felt_ms"]
    assert isinstance(felt, float | int | None)
    by = "measured here" if record.get("measured", True) else "by the server's estimate"
    felt_text = "no answer heard" if felt is None else f"{felt:.0f} ms from the end of speech to sound, {by}"
    reason = record.get("reason")
    if record["verdict"] == "refused":
        felt_text = f"not answered: {REFUSALS.get(str(reason), reason)}, and the budget is enforced"
    elif reason is not None:
        felt_text += f" ({reason})"
    if record.get("cutoff"):
        felt_text = "but a false cutoff: it was answered before the speech in the recording had ended"
    lines = [f"turn {record['turn']}: {record['verdict']}, {felt_text} (budget {budget_ms:.0f} ms)"]
    stages = record["stages"]
    assert isinstance(stages, Mapping)
    spans = {name: (part["wait_ms"], part["service_ms"]) for name, part in stages.items()}
    if any(wait + service for wait, service in spans.values()):
        lines += waterfall(spans, budget_ms)
        lines += _between(record)
    ahead = record["speculation"]
    assert isinstance(ahead, Mapping)
    if ahead["saved_ms"] >= 1.0:
        lines.append(f"  {ahead['saved_ms']:.0f} ms of work were done before the end of speech")
    blame = record["blame"]
    if isinstance(blame, Mapping):
        lines.append(f"  over its share: {blame['stage']} ({blame['kind']}), by {blame['ms']:.0f} ms")
    return lines


def _between(record: Mapping[str, object]) -> list[str]:
    """What lies between the gap that was measured at the client, in the first line, and the server's stages."""
    felt, estimate = record["felt_ms"], record.get("felt_estimate_ms")
    if not record.get("measured", True) or not isinstance(felt, float | int):
        return []
    if not isinstance(estimate, float | int):
        return []
    more = round(felt) - round(estimate)
    if more == 0:
        return [f"  = {estimate:.0f} ms as the server counts, and judges: the same as was measured here"]
    way = f"{abs(more)} ms {'more' if more > 0 else 'less'}"
    return [
        f"  = {estimate:.0f} ms as the server counts, and judges; here it was {way}: "
        "network, playback, and where either hears the speech end"
    ]
