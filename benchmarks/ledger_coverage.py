"""Were the bounds kept in a real run? Reads a file that `--ledger` has written, and runs nothing.

One row for each kind of chunk that is priced apart, then one for each stage and model, of all its kinds. Over the
chunks that carry a bound and were done in full:

    coverage   share of chunks within their bound; wanted are 99 %
    bound      bound / actual at the median: the price of that
    least      the same of the best there is in hindsight: the run's 99 % quantile of actual / mean, times the mean
    p50_ms     what they took, and p99_ms
    cut        chunks that were cut off, which say nothing of their size
    over       those of them that had exceeded their bound by then, which count as not kept
    unpriced   chunks without a bound

Reading ahead (warm) counts as the model's prefill, as in the cost model, whose mean is fitted here anew, chunk by
chunk. Of the turns, "finish_error_ms": when the first content was expected, against when it was sent, per boundary
at the median: negative is too early.

    voicepipe demo --ledger run.jsonl && python benchmarks/ledger_coverage.py run.jsonl
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from voicepipe.core.cost import MISS_RATE, CostKey, CostModel, Size
from voicepipe.core.events import WorkKind

Key = tuple[str, str, str, str]
"""Kind (or stage), variant, model, lane."""
Entry = dict[str, Any]
FEWEST = 100
"""Chunks of which a 99 % quantile can be told."""
ABOUT = {
    "hear": "frames, by the Vad",
    "judge": "a pause, by the turn model",
    "partial": "the speech so far, while it goes on",
    "final": "an utterance at a pause, afresh",
    "final/recheck": "the same, of which a text is known",
    "second-pass": "a turn once more, by the larger model",
    "think/prefill": "a prompt read, in time or ahead",
    "think/decode": "tokens of a reply, right behind others",
    "think/cold-decode": "tokens of a reply, others waiting",
    "speak/first": "a clause, up to its first audio",
    "speak/later": "a clause, its further audio",
    "speak/made": "a clause made before: nothing to do",
    "generate": "texts in the background",
}
"""What the groups are."""
WIDTHS = {"stage": 10, "kind": 19, "what": 40, "model": 18, "lane": 7}


def read(path: Path) -> list[Entry]:
    """Raises SystemExit where it is no ledger."""
    try:
        with path.open(encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise SystemExit(f"{path}: no file that --ledger has written: {error}") from None
    if not any(isinstance(entry, dict) and "chunk" in entry for entry in entries):
        raise SystemExit(f"{path}: there is no chunk in it; is it a file that --ledger has written?")
    return entries


def by_key(chunks: Iterable[Entry]) -> dict[Key, list[Entry]]:
    keys: dict[Key, list[Entry]] = {}
    for chunk in chunks:
        kind = "think" if chunk["chunk"] == "warm" else chunk["chunk"]
        key = (kind, chunk["variant"] or "", chunk["model"] or "", chunk["lane"])
        keys.setdefault(key, []).append(chunk)
    return dict(sorted(keys.items()))


def by_stage(chunks: Iterable[Entry]) -> dict[Key, list[Entry]]:
    """Of the chunks that have a cost: a clause that was made before has none."""
    stages: dict[Key, list[Entry]] = {}
    for chunk in chunks:
        if chunk["variant"] != "made":
            key = (stage_of(chunk), "", chunk["model"] or "", chunk["lane"])
            stages.setdefault(key, []).append(chunk)
    return dict(sorted(stages.items()))


def stage_of(chunk: Entry) -> str:
    return WorkKind(chunk["chunk"]).stage.value


def service_s(chunk: Entry) -> float:
    return float(chunk["finished"] - chunk["started"])


def add_hindsight(chunks: Sequence[Entry]) -> None:
    """To chunks of one key, in order: "hindsight", the seconds that a bound would be which is the same multiple of
    the mean for all of them and holds for 99 %. Of a hundred chunks or more."""
    model, known = CostModel(), []
    key = CostKey(WorkKind(chunks[0]["chunk"]), "", "")
    for chunk in chunks:
        if chunk["whole"] and chunk["units"]:
            size = Size(chunk["units"], chunk["context"] or 0.0)
            mean_s = model.mean_s(key, size)
            model.on_chunk(key, size, service_s(chunk))
            if mean_s is not None:
                known.append((chunk, mean_s))
    if len(known) >= FEWEST:
        ratios = sorted(service_s(chunk) / mean_s for chunk, mean_s in known)
        highest = ratios[ceil((1.0 - MISS_RATE) * len(ratios)) - 1]
        for chunk, mean_s in known:
            chunk["hindsight"] = highest * mean_s


def row(key: Key, chunks: Sequence[Entry]) -> dict[str, Any]:
    priced = [chunk for chunk in chunks if chunk["bound"] is not None]
    whole = [chunk for chunk in priced if chunk["whole"]]
    over = [chunk for chunk in priced if not chunk["whole"] and service_s(chunk) > chunk["bound"]]
    kept = sum(service_s(chunk) <= chunk["bound"] for chunk in whole)
    judged = len(whole) + len(over)
    kind, variant, model, lane = key
    name = "/".join(part for part in (kind, variant) if part)
    took_ms = sorted(1e3 * service_s(chunk) for chunk in chunks)
    return {
        "stage": stage_of(chunks[0]),
        "kind": name if name in ABOUT or variant else "all",
        "what": ABOUT.get(name, ""),
        "model": model,
        "lane": lane,
        "n": len(chunks),
        "coverage": round(kept / judged, 4) if judged else None,
        "bound": times(whole, "bound"),
        "least": times([chunk for chunk in whole if "hindsight" in chunk], "hindsight"),
        "p50_ms": round(statistics.median(took_ms), 2),
        "p99_ms": round(took_ms[ceil(0.99 * len(took_ms)) - 1], 2),
        "cut": sum(not chunk["whole"] for chunk in chunks),
        "over": len(over),
        "unpriced": len(chunks) - len(priced),
    }


def times(chunks: Iterable[Entry], bound: str) -> float | None:
    """The bound of this name in multiples of what the chunk took, at the median."""
    ratios = [chunk[bound] / service_s(chunk) for chunk in chunks if service_s(chunk) > 0]
    return round(statistics.median(ratios), 2) if ratios else None


def finish_errors(turns: Iterable[Entry]) -> dict[str, float]:
    """Milliseconds per next stage, of turns whose content was sent: expected - actual."""
    errors: dict[str, list[float]] = {}
    for turn in turns:
        sent = turn["instants"].get("sent")
        for forecast in turn["slack"] if sent is not None else ():
            errors.setdefault(forecast["stage"], []).append(forecast["predicted_finish_ms"] - sent)
    return {stage: round(statistics.median(values), 1) for stage, values in errors.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help="a JSON-lines file")
    entries = read(parser.parse_args().ledger)
    chunks = [entry for entry in entries if "chunk" in entry]
    keys = by_key(chunks)
    for group in keys.values():
        add_hindsight(group)
    rows = [row(key, group) for key, group in keys.items()]
    stages = [row(key, group) for key, group in by_stage(chunks).items()]
    turns = [entry for entry in entries if "verdict" in entry]
    print(line({name: name for name in rows[0]}))
    for each in (*sorted(rows, key=lambda each: each["stage"]), *stages):
        print(line(each))
    summary = {"keys": rows, "stages": stages, "turns": len(turns), "finish_error_ms": finish_errors(turns)}
    print(json.dumps({"summary": summary}))


def line(row: dict[str, Any]) -> str:
    """What is text on the left of its column, what is a number on the right."""
    cells = []
    for name, value in row.items():
        width = WIDTHS.get(name)
        shown = "" if value is None else str(value)
        cells.append(f"{shown:>9}" if width is None else f"{shown[: width - 2]:<{width}}")
    return "".join(cells)


if __name__ == "__main__":
    main()
