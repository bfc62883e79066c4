"""Were the bounds kept in a real run? Reads a file that `--ledger` has written, and runs nothing.

Per key (kind, variant, model, lane), and per stage and model, over the chunks that carry a bound and were done
in full: "coverage": share of chunks within their bound; wanted are 99 %. "bound": bound / actual at the median,
the price of the coverage. "cut": chunks that were cut off, which say nothing of their size; "over": those of them
that had exceeded their bound by then, which count as not kept. "unpriced": chunks without a bound. Reading ahead
(warm) counts as the model's prefill, as in the cost model. Of the turns, "finish_error_ms": when the first content
was expected, against when it was sent, per boundary at the median: negative is too early.

    voicepipe demo --ledger run.jsonl && python benchmarks/ledger_coverage.py run.jsonl
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from voicepipe.core.events import WorkKind

Key = tuple[str, str, str, str]
Entry = dict[str, Any]


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
            key = (WorkKind(chunk["chunk"]).stage.value, "", chunk["model"] or "", chunk["lane"])
            stages.setdefault(key, []).append(chunk)
    return dict(sorted(stages.items()))


def service_s(chunk: Entry) -> float:
    return float(chunk["finished"] - chunk["started"])


def row(key: Key, chunks: Sequence[Entry]) -> dict[str, Any]:
    priced = [chunk for chunk in chunks if chunk["bound"] is not None]
    whole = [chunk for chunk in priced if chunk["whole"]]
    over = [chunk for chunk in priced if not chunk["whole"] and service_s(chunk) > chunk["bound"]]
    kept = sum(service_s(chunk) <= chunk["bound"] for chunk in whole)
    judged = len(whole) + len(over)
    ratios = [chunk["bound"] / service_s(chunk) for chunk in whole if service_s(chunk) > 0]
    kind, variant, model, lane = key
    return {
        "kind": "/".join(part for part in (kind, variant) if part),
        "model": model,
        "lane": lane,
        "n": len(chunks),
        "coverage": round(kept / judged, 4) if judged else None,
        "bound": round(statistics.median(ratios), 2) if ratios else None,
        "actual_ms": round(1e3 * statistics.median(map(service_s, chunks)), 2),
        "cut": sum(not chunk["whole"] for chunk in chunks),
        "over": len(over),
        "unpriced": len(chunks) - len(priced),
    }


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
    rows = [row(key, group) for key, group in by_key(chunks).items()]
    stages = [row(key, group) for key, group in by_stage(chunks).items()]
    turns = [entry for entry in entries if "verdict" in entry]
    if rows:
        print("".join(f"{name:>16}" for name in rows[0]))
    for each in (*rows, *stages):
        print("".join(f"{value!s:>16.15}" for value in each.values()))
    summary = {"keys": rows, "stages": stages, "turns": len(turns), "finish_error_ms": finish_errors(turns)}
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
