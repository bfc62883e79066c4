"""Felt gap and system gap of whole turns over a real loopback socket: one session, clips in real time.

The felt gap runs on the client's monotonic clock from the frame that holds the last voiced sample to the first
10 ms window above -50 dBFS of reply content that stayed. Turns are counted per clip: one that got no answer
after its labelled end is infinitely late (printed as null). Beside it stand the figures that latency is bought
with: false cutoffs per pause, retractions, and the recogniser's word errors.

    python benchmarks/turn_latency.py [--turns 40] [--wavs DIR] [--operating-point fast] [--engines default]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clips import RATE_HZ, Labelled, default_clips, load_clips
from wer import corpus_wer

from voicepipe.app import serving
from voicepipe.config import Config, EnginesConfig, LimitsConfig
from voicepipe.engines.table import find_models, load
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore
from voicepipe.wire.messages import TurnCommitted, TurnReopened
from voicepipe_client import Clip, ClipSource, Event, OutFrame, TurnRecord, connect, spread, talk

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
MAX_REPLY_TOKENS = 32
"""Short replies: what is measured is over when they begin, and forty turns fit into ten minutes."""


class LabelledSource(ClipSource):
    """Notes when each clip's last voiced frame was sent: the instants that felt gaps count from."""

    def __init__(self, clips: Sequence[Clip], clock, sleep) -> None:  # type: ignore[no-untyped-def]
        super().__init__(clips, RATE_HZ, clock=clock, sleep=sleep)
        self._now = clock
        self.begun: dict[int, float] = {}
        self.ended: dict[int, float] = {}

    async def frame(self) -> OutFrame | None:
        frame = await super().frame()
        if frame is not None and frame.clip is not None and frame.voiced:
            self.begun.setdefault(frame.clip, self._now())
            self.ended[frame.clip] = self._now()
        return frame


@dataclass(slots=True)
class Run:
    records: list[TurnRecord] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    reopened: int = 0

    def on_event(self, event: Event, now: float) -> None:
        if isinstance(event, TurnCommitted):
            self.commits.append(now)
        self.reopened += isinstance(event, TurnReopened)


def answer(run: Run, clip: int) -> TurnRecord | None:
    """The last turn of the clip that has content which stayed."""
    heard = [r for r in run.records if r.clip == clip and r.felt_ms is not None]
    return heard[-1] if heard else None


def rate(count: int, total: int) -> float | None:
    return round(count / total, 4) if total else None


def summary(run: Run, source: LabelledSource, clips: list[Labelled], config: Config) -> dict[str, object]:
    answers = [answer(run, index) for index in range(len(clips))]
    spans = [(source.begun[i], source.ended[i]) for i in range(len(clips))]
    cutoffs = sum(any(a < t < b for a, b in spans) for t in run.commits)
    spoken = {i: [r.transcript for r in run.records if r.clip == i] for i in range(len(clips))}
    texts = [(clip.text, " ".join(spoken[i])) for i, clip in enumerate(clips) if clip.text]
    lag = [
        a.received_ms - felt
        for a, felt in ((a, server_felt(a)) for a in answers if a is not None)
        if felt is not None and a.received_ms is not None
    ]
    hits = [r.speculation.hit for r in run.records if r.verdict != "empty"]
    return {
        "n": len(clips),
        "unanswered": sum(a is None for a in answers),
        "felt_ms": spread([None if a is None else a.felt_ms for a in answers]),
        "system_ms": spread([None if a is None else a.system_ms for a in answers]),
        "false_cutoff_rate": rate(cutoffs, sum(clip.pauses for clip in clips)),
        "verdict_agreement": rate(
            sum(agrees(a, config.budget_ms) for a in answers if a), sum(a is not None for a in answers)
        ),
        "retraction_rate": rate(run.reopened, len(run.commits)),
        "speculation_hit_rate": rate(sum(hits), len(hits)),
        "wer": round(corpus_wer(texts).rate, 4) if texts else None,
        "operating_point": config.operating_point,
        "engines": config.engines.kind,
        "speech_end_error_ms": {k: v for k, v in spread(lag).items() if k in ("p50", "p95")},
    }


def agrees(record: TurnRecord, budget_ms: float) -> bool:
    """Did the server say "in time" exactly where the client found it so?"""
    assert record.felt_ms is not None
    return (record.felt_ms <= budget_ms) == (record.verdict in ("met", "degraded"))


def server_felt(record: TurnRecord) -> float | None:
    """The server's own estimate of the felt gap: the sum of its stages."""
    parts = [getattr(record.stages, name) for name in ("endpoint", "asr", "llm", "tts", "send")]
    total = sum(part.wait_ms + part.service_ms for part in parts)
    return total or None


def table(run: Run, clips: list[Labelled], result: dict[str, object]) -> None:
    print(
        f"{'clip':<12}{'felt':>8}{'system':>8}  {'endpoint':>9}{'asr':>7}{'llm':>7}{'tts':>7}{'send':>7}  heard as"
    )
    for index, clip in enumerate(clips):
        record = answer(run, index)
        if record is None:
            print(f"{clip.name:<12}{'null':>8}")
            continue
        stages = [getattr(record.stages, name) for name in ("endpoint", "asr", "llm", "tts", "send")]
        spans = "".join(f"{s.wait_ms + s.service_ms:>{w}.0f}" for s, w in zip(stages, (9, 7, 7, 7, 7), strict=True))
        print(
            f"{clip.name:<12}{record.felt_ms:>8.0f}{record.system_ms or 0:>8.0f}  {spans}  {record.transcript[:48]}"
        )
    for key, value in result.items():
        print(f"  {key:<22}{value}")


async def measure(config: Config, loader, args: argparse.Namespace, speech: Path | None) -> None:  # type: ignore[no-untyped-def]
    run = Run()
    async with serving(config, loader) as served:
        known = (
            load_clips(args.wavs)
            if args.wavs
            else await default_clips(served.engines.tts, speech, served.on_thread)
        )
        clips = [known[i % len(known)] for i in range(args.turns or len(known))]
        played = [Clip(c.name, c.samples, len(c.samples)) for c in clips]
        clock = asyncio.get_running_loop().time
        async with connect(f"ws://127.0.0.1:{served.server.port}", rate=RATE_HZ) as session:
            source = LabelledSource(played, clock, asyncio.sleep)
            run.records = (await talk(session, source, on_event=run.on_event)).turns
    result = summary(run, source, clips, config)
    table(run, clips, result)
    print(json.dumps({"summary": result}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=40, help="clips to play, round and round (0: each once)")
    parser.add_argument("--wavs", type=Path, help="folder of own recordings, with a .txt each for the word errors")
    parser.add_argument("--engines", choices=("default", "scripted"), default="default")
    parser.add_argument("--operating-point", choices=("fast", "balanced", "safe"), default="fast")
    parser.add_argument("--budget-ms", type=float, default=200.0)
    args = parser.parse_args()
    config = Config(
        port=0,
        operating_point=args.operating_point,
        budget_ms=args.budget_ms,
        instructions=INSTRUCTIONS,
        max_reply_tokens=MAX_REPLY_TOKENS,
        engines=EnginesConfig(kind=args.engines),
        limits=LimitsConfig(max_sessions=1, grace_s=1.0),
    )
    root = default_root(os.environ)
    store = ModelStore(root, report=TerminalReporter(sys.stderr))
    models = find_models(config.engines, store.resolve)
    speech = store.ensure("speech-samples") if models is not None and not args.wavs else None
    asyncio.run(measure(config, lambda: load(config.engines, models, sessions=1, api_key=None), args, speech))


if __name__ == "__main__":
    main()
