"""Felt gap of whole turns over a real loopback socket, and what it is bought with: labelled turns in real time.

The felt gap runs on the client's monotonic clock from the frame that holds the last voiced sample to the first
10 ms window above -50 dBFS of reply content that stayed. A turn that got no answer after its labelled end is
infinitely late (printed as null). Beside it stand false cutoffs per labelled pause of 200 ms and more, retractions,
the work that was done ahead in vain, and the recogniser's word errors.

The turns are those of `dialogues.py`: texts in the default voice with pauses from 200 to 1,500 ms, and readings by
people with known ends. Only the half is played that the endpointing was not tuned on. Each operating point gets a
session of its own, as one speaker who says all of them: the server may be more patient with somebody whom it has
cut off. With `--engines scripted` a tone speaks, and no word errors are counted.

After the table comes the waterfall of the median turn: what each millisecond between the end of speech and the
first sound was, and the mean of the same over the middle fifth of the turns. Client and server share one process,
one event loop and one clock here: the client's work is on the loop too, and the loop's lag includes it.

    python benchmarks/turn_latency.py                                        # 40 turns, fast: 7 minutes
    python benchmarks/turn_latency.py --operating-point all                  # 20 at each of three: 10 minutes
    python benchmarks/turn_latency.py --operating-point all --full > F       # 60 turns each: half an hour
    python benchmarks/endpointing.py --live F --plot docs/endpointing.svg    # draw what was measured
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from breakdown import waterfall_lines
from clips import RATE_HZ, Labelled, default_clips, load_clips
from figures import Commit, LiveTurn, Point, summarise, table
from labelled import as_clip, even_sample, spoken_turns, toned_turns

from voicepipe.app import Serving, serving
from voicepipe.config import NO_TURN_MODEL, Config, EnginesConfig, LimitsConfig
from voicepipe.core import events as core
from voicepipe.engines.table import Models, find_models, load
from voicepipe.errors import Refused
from voicepipe.lag import LagProbe
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore
from voicepipe.recorders import Recorders, open_recorders
from voicepipe.wire.messages import TurnCommitted, TurnReopened
from voicepipe_client import Clip, ClipSource, Event, OutFrame, Session, TurnRecord, connect, talk

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
REPLY_TOKENS = 16
"""Short replies, cut wherever that is: what is measured is over when they begin. Longer ones have more audio made,
where it is chunks that are wanted."""
POINTS = ("fast", "balanced", "safe")
TURNS, TURNS_OF_ALL, TURNS_FULL = 40, 20, 60
"""Per operating point: one alone, each of several, each with `--full`."""
SPOKEN_PER_TAKE, TONED_PER_TAKE = 57, 47
"""So many turns has the half that is played for each take of its texts; the tone has no readings."""
LAG_INTERVAL_S = 0.005
TRIES = 20


class LabelledSource(ClipSource):
    """Notes when each clip's voiced frames were sent, and how much of which clip has been."""

    def __init__(self, clips: Sequence[Clip], clock, sleep) -> None:  # type: ignore[no-untyped-def]
        super().__init__(clips, RATE_HZ, clock=clock, sleep=sleep)
        self._now = clock
        self.begun: dict[int, float] = {}
        self.ended: dict[int, float] = {}
        self.clip = 0
        """The one that is being played, or was last."""
        self.position = 0
        """Samples of it that have left."""

    async def frame(self) -> OutFrame | None:
        frame = await super().frame()
        if frame is None or frame.clip is None:
            return frame
        if frame.clip != self.clip:
            self.clip, self.position = frame.clip, 0
        self.position += len(frame.pcm) // 2
        if frame.voiced:
            self.begun.setdefault(frame.clip, self._now())
            self.ended[frame.clip] = self._now()
        return frame


@dataclass
class Books:
    """A recorder: keeps the server's turns, by session and number."""

    turns: dict[str, dict[int, core.TurnRecord]] = field(default_factory=lambda: defaultdict(dict))

    def on_chunk(self, work: core.Work, timing: core.Timing, lane: str) -> None:
        """Chunks are in the turns' parts."""

    def on_record(self, session: str, record: core.TurnRecord) -> None:
        self.turns[session][record.turn] = record


@dataclass
class Watch:
    """What the client is told, with the place in the recording at which it is."""

    source: LabelledSource
    total: int
    commits: list[Commit] = field(default_factory=list)
    reopened: int = 0

    def on_event(self, event: Event, now: float) -> None:
        if isinstance(event, TurnCommitted):
            source = self.source
            if source.clip in source.begun:  # else it is about the clip before
                self.commits.append(Commit(event.turn, source.clip, source.position, now))
        self.reopened += isinstance(event, TurnReopened)

    def on_turn(self, record: TurnRecord) -> None:
        felt = "null" if record.felt_ms is None else f"{record.felt_ms:.0f} ms"
        place = f"{self.source.clip + 1}/{self.total}"
        print(f"{place:>8} {record.verdict:<12}{felt:>9}  {record.transcript[:60]}", file=sys.stderr)


async def play(served: Serving, books: Books, config: Config, point: str, clips: Sequence[Labelled]) -> Point:
    """All clips in one session at this operating point."""
    loop = asyncio.get_running_loop()
    lags_s: list[float] = []
    async with AsyncExitStack() as stack:
        session = await admitted(stack, f"ws://127.0.0.1:{served.server.port}", point)
        played = [Clip(clip.name, clip.samples, clip.speech_end) for clip in clips]
        source = LabelledSource(played, loop.time, asyncio.sleep)
        watch = Watch(source, len(clips))
        probe = LagProbe(lags_s.append, LAG_INTERVAL_S)
        probe.start(loop)
        stack.callback(probe.stop)
        report = await talk(session, source, on_event=watch.on_event, on_turn=watch.on_turn)
        ledgers = books.turns[session.ready.session]
    turns = [
        LiveTurn(
            clip,
            (source.begun[number], source.ended[number]),
            [record for record in report.turns if record.clip == number],
            ledgers,
            [commit for commit in watch.commits if commit.clip == number],
        )
        for number, clip in enumerate(clips)
    ]
    return Point(point, config.engines.kind, config.budget_ms, turns, watch.reopened, lags_s)


async def admitted(stack: AsyncExitStack, url: str, point: str) -> Session:
    """The slot of the session before may come free a moment after that has closed. Raises Refused."""
    for attempt in range(1, TRIES + 1):
        try:
            return await stack.enter_async_context(
                connect(url, rate=RATE_HZ, operating_point=point)  # type: ignore[arg-type]
            )
        except Refused as refused:
            if attempt == TRIES:
                raise
            await asyncio.sleep(min(1.0, refused.retry_after_ms / 1000))
    raise AssertionError("unreachable")


def show_turns(point: Point) -> None:
    print(
        f"\n{point.name:<16}{'felt':>7}{'system':>8}  {'endpoint':>9}{'asr':>7}{'llm':>7}{'tts':>7}{'send':>7}  "
        "cut  heard as"
    )
    for turn in point.turns:
        cut, early = turn.cutoffs()
        told, record = f"{cut}/{len(turn.clip.pauses)}{'+' * early}", turn.answer
        if record is None:
            print(f"{turn.clip.name:<16}{'null':>7}{'':>54}{told:>5}")
            continue
        stages = [getattr(record.stages, name) for name in ("endpoint", "asr", "llm", "tts", "send")]
        spans = "".join(f"{s.wait_ms + s.service_ms:>{w}.0f}" for s, w in zip(stages, (9, 7, 7, 7, 7), strict=True))
        print(
            f"{turn.clip.name:<16}{record.felt_ms:>7.0f}{record.system_ms or 0:>8.0f}  {spans}{told:>5}  "
            f"{record.transcript[:40]}"
        )


def report(points: Sequence[Point]) -> dict[str, object]:
    """Prints the tables, and gives the summary: a point's own where there is one, else a list of them."""
    for point in points:
        show_turns(point)
    summaries = [summarise(point) for point in points]
    print()
    print("\n".join(table(summaries)))
    print("  (client and server share one event loop: its lag is that of both)")
    for point in points:
        print(f"\n{point.name}")
        print("\n".join(waterfall_lines([turn.path for turn in point.turns])))
    if len(points) == 1:
        return summaries[0]
    return {"operating_point": "all", "engines": points[0].engines, "points": summaries}


async def measure(config: Config, models: Models | None, args: argparse.Namespace, store: ModelStore) -> None:
    books = Books()
    known = [] if args.set == "questions" else own_or_labelled(args, store)
    speech = store.ensure("speech-samples") if args.set == "questions" and models is not None else None
    engines = config.engines
    with open_recorders(args.ledger, None, None) as files:
        recorders = Recorders((books, *files.observers))
        async with serving(
            config, lambda: load(engines, models, sessions=1, api_key=None), recorders=recorders
        ) as served:
            if args.set == "questions":
                known = await default_clips(served.engines.tts, speech, served.on_thread)
            clips = [known[i % len(known)] for i in range(args.turns or len(known))]
            names = POINTS if args.operating_point == "all" else (args.operating_point,)
            points = [await play(served, books, config, name, clips) for name in names]
    summary = report(points)
    print(json.dumps({"summary": {**summary, "set": "own" if args.wavs else args.set}}))


def own_or_labelled(args: argparse.Namespace, store: ModelStore) -> list[Labelled]:
    if args.wavs:
        return load_clips(args.wavs)
    understood = args.engines != "scripted"
    takes = max(1, ceil(args.turns / (SPOKEN_PER_TAKE if understood else TONED_PER_TAKE)))
    if understood:
        turns = spoken_turns(store, half="report", takes=takes, seed=args.seed)
    else:
        turns = toned_turns(half="report", takes=takes, seed=args.seed)
    sample = even_sample(turns, args.turns or len(turns), args.seed)
    return [as_clip(turn, understood=understood) for turn in sample]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--turns",
        type=int,
        help=f"turns per operating point; 0: each turn of the set once (default: {TURNS}; {TURNS_OF_ALL} with "
        f"--operating-point all; {TURNS_FULL} with --full)",
    )
    parser.add_argument("--full", action="store_true", help=f"{TURNS_FULL} turns per operating point")
    parser.add_argument(
        "--operating-point", choices=(*POINTS, "all"), default="fast", help="all: each of the three, in one run"
    )
    parser.add_argument(
        "--set",
        choices=("labelled", "questions"),
        default="labelled",
        help="labelled: dialogues with pauses, an even sample; questions: twelve plain clips, round and round",
    )
    parser.add_argument("--wavs", type=Path, help="folder of own recordings, with a .txt each for the word errors")
    parser.add_argument("--seed", type=int, default=0, help="of the set, and of the order of its turns")
    parser.add_argument("--engines", choices=("default", "scripted"), default="default")
    parser.add_argument(
        "--turn-model", default=NO_TURN_MODEL, help="asked in pauses: smart-turn-v3.2 (default: none)"
    )
    parser.add_argument(
        "--ledger", type=Path, metavar="F.jsonl", help="every chunk and turn, for ledger_coverage.py"
    )
    parser.add_argument(
        "--reply-tokens", type=int, default=REPLY_TOKENS, help=f"the longest reply (default: {REPLY_TOKENS})"
    )
    parser.add_argument("--budget-ms", type=float, default=200.0, help="what a turn may take (default: 200 ms)")
    args = parser.parse_args(argv)
    if args.wavs and args.set == "questions":
        parser.error("--wavs is a set of its own")
    if args.turns is not None and args.turns < 0:
        parser.error("--turns is a number of turns: 0 or more")
    if not 1 <= args.reply_tokens <= 256:
        parser.error("--reply-tokens lies between 1 and 256")
    if not 1.0 <= args.budget_ms <= 60_000.0:
        parser.error("--budget-ms lies between 1 and 60000")
    if args.turns is None:
        alone = TURNS_OF_ALL if args.operating_point == "all" else TURNS
        args.turns = TURNS_FULL if args.full else alone
    return args


def main() -> None:
    args = arguments()
    config = Config(
        port=0,
        operating_point="fast" if args.operating_point == "all" else args.operating_point,
        budget_ms=args.budget_ms,
        instructions=INSTRUCTIONS,
        max_reply_tokens=args.reply_tokens,
        engines=EnginesConfig(kind=args.engines, turn_model=args.turn_model),
        limits=LimitsConfig(max_sessions=1, grace_s=1.0),
    )
    root = default_root(os.environ)
    store = ModelStore(root, report=TerminalReporter(sys.stderr))
    models = find_models(config.engines, store.resolve)
    asyncio.run(measure(config, models, args, store))


if __name__ == "__main__":
    main()
