"""What long text generations beside a voice session cost it: one model, one device, three layouts of the pool.

One session asks its questions in real time over a loopback socket while so many texts are made, each begun anew
when it ends. Arms: `monolithic` (first come, first served), `shared` (voice first at every chunk) and `dedicated`
(texts in slack only); each arm has a server of its own, and asks the same questions in the same order with every
number of texts. The budget is what the server says it can achieve here, unless it is given.

The felt gap is the client's, as in `turn_latency.py`; a question without an answer counts as infinite, printed as
null, and as missed. `blocked` is the most that background held up the critical path of one turn, by the server's
ledger. Growth is told turn by turn against the same arm without background. Tokens are those generated, over all of
the arm's time, with the voice's share of the device in it.

    python benchmarks/isolation.py                        # monolithic and dedicated, 0 and 4 texts: 10 minutes
    python benchmarks/isolation.py --full --plot F.svg    # all three, with 0, 1, 2 and 4: half an hour
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import median

from clips import RATE_HZ, Labelled, default_clips
from curve import Series, write_svg
from turn_latency import INSTRUCTIONS, Books, LabelledSource

from voicepipe.app import Serving, serving
from voicepipe.background import TextService
from voicepipe.config import Config, EnginesConfig, LimitsConfig, LlmPool, OverloadConfig
from voicepipe.engines.base import ChatMessage, TextRequest
from voicepipe.engines.table import find_models, load
from voicepipe.errors import Refused
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore
from voicepipe.recorders import Recorders
from voicepipe_client import Clip, connect, talk

POOLS: tuple[LlmPool, ...] = ("monolithic", "shared", "dedicated")
SHORT_POOLS: tuple[LlmPool, ...] = ("monolithic", "dedicated")
BACKGROUND, BACKGROUND_FULL = (0, 4), (0, 1, 2, 4)
TURNS = 20
MAX_REPLY_TOKENS = 10
TEXT_TOKENS = 200
"""Of each text, unless the model ends it before."""
TOPICS = ("the sea", "a mountain railway", "the history of bread", "how bees find their way")
TRIES = 20
UNSHED = OverloadConfig(loop_lag_ms=10_000.0, input_age_ms=10_000.0, backlog_ms=10_000.0)
"""Pools are compared: a server that is first come, first served would refuse the texts that make its turns late."""


@dataclass(frozen=True, slots=True)
class Arm:
    pool: LlmPool
    background: int
    felt_ms: tuple[float, ...]
    """Of each question; infinite without an answer."""
    blocked_ms: tuple[float, ...]
    """Of each of the server's turns."""
    budget_ms: float
    tokens: int
    seconds: float

    @property
    def missed(self) -> int:
        return sum(ms > self.budget_ms for ms in self.felt_ms)

    def growth_ms(self, alone: Arm) -> list[float]:
        """Turn by turn, where both were answered."""
        pairs = zip(self.felt_ms, alone.felt_ms, strict=True)
        return [one - other for one, other in pairs if isfinite(one) and isfinite(other)]

    def summary(self, alone: Arm) -> dict[str, object]:
        growth = self.growth_ms(alone)
        return {
            "arm": self.pool,
            "background": self.background,
            "felt_p50_ms": _finite(median(self.felt_ms)),
            "felt_max_ms": _finite(max(self.felt_ms)),
            "missed": self.missed,
            "blocked_by_background_max_ms": _finite(max(self.blocked_ms, default=0.0)),
            "background_tokens_s": round(self.tokens / self.seconds, 1),
            "n": len(self.felt_ms),
            "budget_ms": round(self.budget_ms, 1),
            "growth_p50_ms": _finite(median(growth)) if growth else None,
            "growth_max_ms": _finite(max(growth)) if growth else None,
        }


def _finite(ms: float) -> float | None:
    return round(ms, 1) if isfinite(ms) else None


class Load:
    """Texts that are made while it lasts, each followed by the next."""

    def __init__(self, texts: TextService) -> None:
        self._texts = texts
        self.tokens = 0

    async def keep(self, number: int) -> None:
        """One at a time, for ever."""
        topic = TOPICS[number % len(TOPICS)]
        told = f"Write a long story about {topic}. Tell everything in great detail, from the beginning to the end."
        seed = 0
        while True:
            seed += 1
            request = TextRequest((ChatMessage("user", told),), TEXT_TOKENS, 1.0, 1.0, 1000 * number + seed)
            with self._counted(request) as stream:
                async for _ in stream.pieces():
                    pass

    @contextmanager
    def _counted(self, request: TextRequest) -> Iterator:  # type: ignore[type-arg]
        with self._texts.open(request) as stream:
            try:
                yield stream
            finally:
                self.tokens += stream.completion_tokens


async def measure(
    served: Serving, books: Books, pool: LlmPool, n: int, clips: Sequence[Labelled], budget_ms
) -> Arm:  # type: ignore[no-untyped-def]
    assert served.texts is not None
    loop, texts = asyncio.get_running_loop(), Load(served.texts)
    print(f"{pool}, {n} texts", file=sys.stderr)
    async with AsyncExitStack() as stack:
        session = await _admitted(stack, f"ws://127.0.0.1:{served.server.port}", budget_ms)
        began = loop.time()
        tasks = [asyncio.create_task(texts.keep(number)) for number in range(n)]
        played = [Clip(clip.name, clip.samples, clip.speech_end) for clip in clips]
        source = LabelledSource(played, loop.time, asyncio.sleep)
        try:
            report = await talk(session, source, on_turn=lambda turn: _tell(turn.felt_ms, turn.transcript))
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        seconds = loop.time() - began
        failures = [error for error in ended if not isinstance(error, asyncio.CancelledError)]
        if failures:
            raise ExceptionGroup("texts failed", [e for e in failures if isinstance(e, Exception)])
        ledgers = books.turns[session.ready.session]
    felt = []
    for number in range(len(clips)):
        heard = [r.felt_ms for r in report.turns if r.clip == number and r.felt_ms is not None]
        felt.append(heard[-1] if heard else inf)
    blocked = tuple(1000 * record.background_s for record in ledgers.values())
    return Arm(pool, n, tuple(felt), blocked, budget_ms, texts.tokens, seconds)


def _tell(felt_ms: float | None, words: str) -> None:
    felt = "null" if felt_ms is None else f"{felt_ms:.0f} ms"
    print(f"{felt:>10}  {words[:60]}", file=sys.stderr)


async def _admitted(stack: AsyncExitStack, url: str, budget_ms: float):  # type: ignore[no-untyped-def]
    """The slot of the session before may come free a moment after that has closed. Raises Refused."""
    for attempt in range(1, TRIES + 1):
        try:
            return await stack.enter_async_context(connect(url, rate=RATE_HZ, budget_ms=budget_ms))
        except Refused as refused:
            if attempt == TRIES:
                raise
            await asyncio.sleep(min(1.0, refused.retry_after_ms / 1000))
    raise AssertionError("unreachable")


async def arms_of(pool: LlmPool, args: argparse.Namespace, store: ModelStore) -> list[Arm]:
    config = Config(
        port=0,
        instructions=INSTRUCTIONS,
        max_reply_tokens=MAX_REPLY_TOKENS,
        engines=EnginesConfig(kind=args.engines, llm_pool=pool, text_slots=max(1, *args.background)),
        limits=LimitsConfig(max_sessions=1, grace_s=1.0),
        overload=UNSHED,
    )
    models = find_models(config.engines, store.resolve)
    books = Books()
    async with serving(
        config, lambda: load(config.engines, models, sessions=1, api_key=None), recorders=Recorders((books,))
    ) as served:
        spoken = await default_clips(served.engines.tts, None, served.on_thread)
        clips = [spoken[number % len(spoken)] for number in range(args.turns)]
        # The first arm sets what all of them are held to.
        args.budget_ms = args.budget_ms or served.achievable_ms
        return [await measure(served, books, pool, n, clips, args.budget_ms) for n in args.background]


def report(arms: Sequence[Arm]) -> list[dict[str, object]]:
    alone = {arm.pool: arm for arm in arms if arm.background == 0}
    summaries = [arm.summary(alone.get(arm.pool, arm)) for arm in arms]
    print(
        f"\nfelt gap and growth in ms; budget {arms[0].budget_ms:.0f} ms, {len(arms[0].felt_ms)} questions each\n"
    )
    print(
        f"{'arm':<12}{'texts':>6}{'felt p50':>10}{'max':>8}{'missed':>8}{'blocked':>9}{'growth p50':>12}{'max':>8}"
        f"{'tokens/s':>10}"
    )
    for one in summaries:
        names = ("felt_p50_ms", "felt_max_ms", "missed", "blocked_by_background_max_ms", "growth_p50_ms")
        widths = (10, 8, 8, 9, 12)
        cells = "".join(f"{_cell(one[name]):>{width}}" for name, width in zip(names, widths, strict=True))
        rate = one["background_tokens_s"]
        print(f"{one['arm']:<12}{one['background']:>6}{cells}{_cell(one['growth_max_ms']):>8}{rate:>10}")
    return summaries


def _cell(value: object) -> str:
    return "null" if value is None else f"{value:.0f}"


def plot(path: Path, arms: Sequence[Arm]) -> None:
    """Median (a line) and maximum of the felt gap over the number of texts; infinite ones are left out."""
    series = []
    for pool in POOLS:
        own = [arm for arm in arms if arm.pool == pool]
        for name, of, line in (("median", median, True), ("max", max, False)):
            points = [(float(arm.background), of(arm.felt_ms), "") for arm in own if isfinite(of(arm.felt_ms))]
            if points:
                series.append(Series(f"{pool} {name}", tuple(points), line=line))
    write_svg(path, series, "A voice session beside long texts", "texts being made", "felt gap, ms")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS, help=f"questions in each arm (default: {TURNS})")
    parser.add_argument("--full", action="store_true", help="all layouts, with 0, 1, 2 and 4 texts")
    parser.add_argument("--arms", nargs="+", choices=POOLS, help="layouts (default: monolithic and dedicated)")
    parser.add_argument("--background", nargs="+", type=int, help="numbers of texts (default: 0 and 4)")
    parser.add_argument("--engines", choices=("default", "scripted"), default="default")
    parser.add_argument("--budget-ms", type=float, help="what a turn may take (default: what can be achieved here)")
    parser.add_argument("--plot", type=Path, metavar="F.svg", help="draw the felt gaps")
    args = parser.parse_args(argv)
    args.arms = args.arms or (POOLS if args.full else SHORT_POOLS)
    args.background = args.background or list(BACKGROUND_FULL if args.full else BACKGROUND)
    if args.turns < 1 or not all(0 <= n <= 16 for n in args.background):
        parser.error("there are 1 turn or more, and 0 to 16 texts")
    return args


def main() -> None:
    args = arguments()
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    arms = [arm for pool in args.arms for arm in asyncio.run(arms_of(pool, args, store))]
    summaries = report(arms)
    if args.plot is not None:
        plot(args.plot, arms)
    print(json.dumps({"summary": {"arms": summaries}}))


if __name__ == "__main__":
    main()
