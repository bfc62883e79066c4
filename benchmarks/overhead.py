"""What the pipeline itself costs: spoken turns on a real socket with scripted engines of known service times.

Whatever the engines did not serve between the commit and the first content at the socket was spent by the loop, the
scheduler, the hand-off between them, the session, the outbox. Two regimes, each with a server of its own:

    ready   the reply has been made when the turn is committed: all of the system gap is the pipeline's
    made    engines so slow that most of the reply is made after the commit: every hand-off is in the gap

    system       commit -> first content at the socket
    service      of it, the time in which a chunk of the turn ran (measured, oversleeping included)
    overhead     system - service: the pipeline's own
    path         the same over the whole critical path, from the end of speech on: what the ledger calls hand-off,
                 unattributed, and waiting for the loop and the socket to send
    queue        on that path, waiting for other chunks of the session itself: the device is busy, not slow

A tone of half a second is the speaker. One session at a time, client and server in one process on one event loop;
the scripted engines sleep, so that the cores are free. Milliseconds.

    python benchmarks/overhead.py                # 320 turns: some 7 minutes
    python benchmarks/overhead.py --turns 40     # a glance
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from voicepipe.app import serving
from voicepipe.audio import Samples, silence
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.core.events import BlameKind, Stage, Timing, TurnRecord, Work
from voicepipe.engines.table import load
from voicepipe.recorders import Recorders
from voicepipe_client import Clip, ClipSource, connect, spread, talk
from voicepipe_client import TurnRecord as ClientRecord

RATE_HZ = 16_000
TURNS = 320
SPEECH_S = 0.5
LEAD_S = 0.1
LEVEL, TONE_HZ = 0.2, 220.0
REPLY = "Yes."
"""A word of 0.3 s: what is measured is over when it begins."""
REGIMES = {
    "ready": ScriptedConfig(reply=REPLY, asr_ms=10, llm_prefill_ms=10, llm_token_ms=5, tts_ms=10),
    "made": ScriptedConfig(reply=REPLY, asr_ms=40, llm_prefill_ms=80, llm_token_ms=20, tts_ms=60),
}
QUEUE = (BlameKind.WAIT, BlameKind.BLOCKING)
OWN = (BlameKind.HAND_OFF, BlameKind.UNATTRIBUTED)
Span = tuple[float, float]


@dataclass
class Books:
    """A recorder: the turns, and when their chunks ran."""

    records: list[TurnRecord] = field(default_factory=list)
    served: dict[int, list[Span]] = field(default_factory=lambda: defaultdict(list))

    def on_chunk(self, work: Work, timing: Timing, lane: str) -> None:
        if work.kind.stage is not Stage.ENDPOINT:  # the ears listen all the time, on a lane of their own
            self.served[work.turn].append((timing.started, timing.finished))

    def on_record(self, session: str, record: TurnRecord) -> None:
        self.records.append(record)


@dataclass(frozen=True, slots=True)
class Cost:
    """One turn; milliseconds."""

    system_ms: float
    service_ms: float
    path_ms: float
    hand_off_ms: float
    unattributed_ms: float
    send_ms: float
    queue_ms: float

    @property
    def overhead_ms(self) -> float:
        return self.system_ms - self.service_ms


FIELDS = (
    "system_ms",
    "service_ms",
    "overhead_ms",
    "path_ms",
    "hand_off_ms",
    "unattributed_ms",
    "send_ms",
    "queue_ms",
)


def cost_of(record: TurnRecord, chunks: Iterable[Span]) -> Cost | None:
    """None without content that stayed."""
    commit, sent = record.instants.commit, record.instants.sent
    if commit is None or sent is None:
        return None
    hand_off_ms = _spent_ms(record, OWN[:1])
    unattributed_ms = _spent_ms(record, OWN[1:])
    send_ms = _spent_ms(record, QUEUE, stages=(Stage.SEND,))
    return Cost(
        system_ms=1000 * (sent - commit),
        service_ms=1000 * covered_s(chunks, commit, sent),
        path_ms=hand_off_ms + unattributed_ms + send_ms,
        hand_off_ms=hand_off_ms,
        unattributed_ms=unattributed_ms,
        send_ms=send_ms,
        queue_ms=_spent_ms(record, QUEUE, stages=(Stage.ENDPOINT, Stage.ASR, Stage.LLM, Stage.TTS)),
    )


def _spent_ms(record: TurnRecord, kinds: Sequence[BlameKind], stages: Sequence[Stage] = tuple(Stage)) -> float:
    return 1000 * sum(part.seconds for part in record.parts if part.kind in kinds and part.stage in stages)


def covered_s(spans: Iterable[Span], begin: float, end: float) -> float:
    """How much of the time from `begin` to `end` at least one of the spans covers."""
    total, at = 0.0, begin
    for start, finish in sorted(spans):
        start, finish = max(start, at), min(finish, end)
        if finish > start:
            total += finish - start
            at = finish
    return total


def percentiles(costs: Sequence[Cost]) -> dict[str, dict[str, float | None]]:
    """Per field: p50, p99 and max. None without a turn."""
    spreads = {name: spread([getattr(cost, name) for cost in costs]) for name in FIELDS}
    return {name: {part: values[part] for part in ("p50", "p99", "max")} for name, values in spreads.items()}


def tone() -> Samples:
    n = round(SPEECH_S * RATE_HZ)
    sound = (LEVEL * np.sin(np.arange(n) * 2 * np.pi * TONE_HZ / RATE_HZ)).astype(np.float32)
    return np.concatenate([silence(round(LEAD_S * RATE_HZ)), sound])


async def run(script: ScriptedConfig, turns: int) -> tuple[list[Cost], list[ClientRecord]]:
    books, loop = Books(), asyncio.get_running_loop()
    engines = EnginesConfig(kind="scripted", scripted=script)
    config = Config(port=0, engines=engines, limits=LimitsConfig(max_sessions=1, grace_s=1.0))
    samples = tone()
    clips = [Clip(f"turn {number}", samples, len(samples)) for number in range(1, turns + 1)]
    async with (
        serving(
            config, lambda: load(engines, None, sessions=1, api_key=None), recorders=Recorders((books,))
        ) as served,
        connect(f"ws://127.0.0.1:{served.server.port}", rate=RATE_HZ) as session,
    ):
        source = ClipSource(clips, RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
        report = await talk(session, source)
    costs = [cost for record in books.records if (cost := cost_of(record, books.served[record.turn])) is not None]
    return costs, report.turns


def show(regime: str, costs: Sequence[Cost], result: dict[str, dict[str, float | None]]) -> None:
    print(f"{regime} ({len(costs)} turns)")
    for name, values in result.items():
        cells = "".join("    null" if value is None else f"{value:>8.2f}" for value in values.values())
        print(f"  {name.removesuffix('_ms'):<14}{cells}")


async def measure(turns: int) -> dict[str, object]:
    """Prints a table for each regime, and gives the summary."""
    every: list[Cost] = []
    regimes: dict[str, object] = {}
    print(f"{'milliseconds':<16}{'p50':>8}{'p99':>8}{'max':>8}")
    for number, (name, script) in enumerate(REGIMES.items()):
        share = turns * (number + 1) // len(REGIMES) - turns * number // len(REGIMES)
        print(f"{name}: {share} turns", file=sys.stderr)
        costs, records = await run(script, share)
        result = percentiles(costs)
        show(name, costs, result)
        regimes[name] = {
            "n": share,
            "unanswered": share - len(costs),
            "felt_ms": spread([record.felt_ms for record in records]),
            **result,
        }
        every += costs
    overall = {name: values for name, values in percentiles(every).items() if name in ("overhead_ms", "path_ms")}
    show("all", every, overall)
    return {
        "n": turns,
        "unanswered": turns - len(every),
        "overhead_ms": overall["overhead_ms"],
        "path_ms": overall["path_ms"],
        "engines": "scripted",
        "regimes": regimes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS, help=f"in all regimes together (default: {TURNS})")
    args = parser.parse_args()
    if args.turns < len(REGIMES):
        parser.error(f"--turns: at least {len(REGIMES)}")
    print(json.dumps({"summary": asyncio.run(measure(args.turns))}))


if __name__ == "__main__":
    main()
