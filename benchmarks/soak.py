"""Hours of trouble in minutes: sessions that talk, a seeded schedule of faults, and what has to hold meanwhile.

The server is a process of its own; between it and the sessions stands a proxy. Every few seconds something goes
wrong: connections are reset or stall, vanish into a black hole, get slow and sliced; clients send garbage, stop
reading, talk over the reply, come back; the server stands still for a moment; engines fail now and then. At the end
it is told to go away while everybody talks.

What breaks the run (exit status 1): a turn that a client saw committed without exactly one verdict in the ledger;
a turn that was told two; a lease or a session that is left; another exit status than 0 at SIGTERM; a traceback; a
bug counted by the server (`voicepipe_session_failures_total`, `voicepipe_tasks_abandoned_total`); memory that
grows beyond what the interval of its slope leaves open; descriptors or threads that do not come back.

    python benchmarks/soak.py                                             # 3 minutes, 8 sessions
    python benchmarks/soak.py --minutes 30 --sessions 20                  # scripted engines
    python benchmarks/soak.py --engines default --sessions 2 --minutes 10 # real models
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from arrivals import Question
from caller import Voice, noise
from served import Sample, Server, total
from slopes import Slope, slope
from talkers import Heard, Mouth, listen, start
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.faults.proxy import Proxy, Toxic
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client

SAMPLE_S = 2.0
QUIET_S = 12.0
"""At the end, for pings to find who is gone."""
GROWTH_BYTES = 24 << 20
"""So much more memory at the end than after the warm-up, at the least that the slope allows, is a leak."""
LEFT_FDS = LEFT_THREADS = 8
SCRIPTED = """
[engines]
kind = "scripted"
[engines.scripted]
llm_fails_every = 40
asr_ms = 5
llm_prefill_ms = 5
llm_token_ms = 2
tts_ms = 5
"""
LIMITS = """
[limits]
max_sessions = {sessions}
max_connections = 512
grace_s = 6
send_timeout_s = 3
[admission]
policy = "count"
"""


@dataclass(slots=True)
class Books:
    """What the run saw."""

    heard: list[Heard] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    samples: list[Sample] = field(default_factory=list)


class Caller:
    """One client that comes back for ever; what it does is drawn."""

    def __init__(self, port: int, books: Books, voice: Voice, seed: int, speech_s: float) -> None:
        self._url = f"ws://127.0.0.1:{port}/v1/voice"
        self._books = books
        self._voice = voice
        self._draw = random.Random(seed)
        self._speech_s = speech_s

    async def call_for_ever(self) -> None:
        while True:
            heard = Heard()
            try:
                async with connect(self._url, proxy=None, open_timeout=8, close_timeout=2) as ws:
                    self._books.heard.append(heard)
                    async with asyncio.TaskGroup() as group:
                        ears = group.create_task(listen(ws, heard))
                        await self._talk(ws)
                        await asyncio.wait([ears], timeout=5.0)
                        ears.cancel()
            except (OSError, EOFError, TimeoutError, ConnectionClosed, InvalidHandshake):
                self._books.refused += not heard.session
            except ExceptionGroup as group_error:
                if group_error.split((OSError, ConnectionClosed))[1] is not None:
                    raise
            await asyncio.sleep(self._draw.uniform(0.05, 1.0))

    async def _talk(self, ws: Any) -> None:
        draw, clock = self._draw, asyncio.get_running_loop().time
        await start(ws)
        mouth, speech_s = Mouth(ws, self._voice), self._speech_s
        for _ in range(draw.randint(1, 5)):
            match draw.choice(("speak", "speak", "speak", "type", "barge in", "garbage", "vanish", "cancel")):
                case "speak":
                    await mouth.say(clock(), Question(0.1, 0.1 + speech_s), speech_s + draw.uniform(0.8, 3.0))
                case "type":
                    await ws.send(encode_client(wire.InputText("Are you there?")))
                    await asyncio.sleep(draw.uniform(0.1, 2.0))
                case "barge in":
                    for _ in range(3):
                        await mouth.say(clock(), Question(0.0, 0.5 * speech_s), speech_s)
                case "garbage":
                    await ws.send(draw.choice(('{"type": "bonjour"}', '{"type": "playback"}', b"\0" * 8)))
                case "cancel":
                    await ws.send(encode_client(wire.InputText("Say a lot.")))
                    await asyncio.sleep(draw.uniform(0.0, 0.3))
                    await ws.send(encode_client(wire.ReplyCancel()))
                case "vanish":
                    ws.transport.abort()
                    return
        await ws.send(encode_client(wire.SessionEnd()))


async def chaos(server: Server, proxy: Proxy, books: Books, seed: int) -> None:
    """A fault every one to five seconds. The same seed is the same schedule."""
    draw = random.Random(seed)
    while True:
        await asyncio.sleep(draw.uniform(1.0, 5.0))
        fault = draw.choice(("reset", "reset one", "hole", "slow", "stall", "stop", "sliced", "nothing"))
        books.faults[fault] += 1
        match fault:
            case "reset":
                proxy.reset_peers()
            case "reset one" if proxy.links:
                draw.choice(proxy.links).reset()
            case "hole":
                proxy.poison(up=Toxic(black_hole=True), down=Toxic(black_hole=True))
                await asyncio.sleep(draw.uniform(0.5, 2.0))
                proxy.reset_peers()
            case "slow":
                proxy.poison(*[Toxic(latency_s=0.1, jitter_s=0.05)] * 2)
                await asyncio.sleep(3.0)
            case "sliced":
                proxy.poison(*[Toxic(slice_bytes=50)] * 2)
                await asyncio.sleep(3.0)
            case "stall":
                proxy.poison(down=Toxic(bandwidth_bytes_s=2_000))
                await asyncio.sleep(4.0)
            case "stop":
                server.pause()
                await asyncio.sleep(draw.uniform(0.1, 0.8))
                server.go_on()
        proxy.poison()


async def watch(server: Server, books: Books) -> None:
    while True:
        books.samples.append(await server.sample())
        await asyncio.sleep(SAMPLE_S)


async def run(args: argparse.Namespace, voice: Voice = noise, speech_s: float = 0.6) -> dict[str, Any]:
    config = (SCRIPTED if args.engines == "scripted" else "") + LIMITS.format(sessions=args.sessions)
    books = Books()
    async with Server(config) as server, Proxy(server.port, seed=args.seed) as proxy:
        first = await server.sample()
        callers = [
            Caller(proxy.port, books, voice, args.seed * 1_000 + number, speech_s)
            for number in range(args.sessions)
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(caller.call_for_ever()) for caller in callers]
            tasks += [
                group.create_task(watch(server, books)),
                group.create_task(chaos(server, proxy, books, args.seed)),
            ]
            await asyncio.sleep(60 * args.minutes)
            for task in tasks:
                task.cancel()
            server.go_on()
        proxy.reset_peers()
        after = await at_rest(server)
        metrics = await server.metrics()
        proxy.poison()
        async with asyncio.TaskGroup() as group:  # at the end, everybody talks and it is told to go away
            tasks = [group.create_task(caller.call_for_ever()) for caller in callers]
            await asyncio.sleep(2.0)
            status = await server.end()
            for task in tasks:
                task.cancel()
        return summarise(args, books, server, first, after, metrics, status)


async def at_rest(server: Server) -> Sample:
    """With no session left; or as it is when that has taken too long."""
    clock = asyncio.get_running_loop().time
    until = clock() + QUIET_S
    while (sample := await server.sample()).leases and clock() < until:  # noqa: ASYNC110  of another process
        await asyncio.sleep(0.5)
    return sample


def verdicts(heard: Sequence[Heard], ledger: Sequence[Any]) -> dict[str, int]:
    """`missing`: turns that a client saw committed and the ledger does not have; `twice`: what has two."""
    written = Counter((line["session"], line["turn"]) for line in ledger)
    seen = {(one.session, turn) for one in heard for turn in one.committed}
    told_twice = sum(len(ends) > 1 for one in heard for ends in one.ended.values())
    return {
        "committed": len(seen),
        "ledger": len(written),
        "missing": len(seen - written.keys()),
        "twice": sum(count > 1 for count in written.values()) + told_twice,
    }


def summarise(
    args: argparse.Namespace,
    books: Books,
    server: Server,
    first: Sample,
    after: Sample,
    metrics: Any,
    status: int | None,
) -> dict[str, Any]:
    ledger = server.turns()
    counted = verdicts(books.heard, ledger)
    warm = books.samples[len(books.samples) // 4 :]
    grown = slope([(one.at, float(one.rss_bytes)) for one in warm])
    seconds = warm[-1].at - warm[0].at if warm else 0.0
    failures = total(metrics, "voicepipe_session_failures_total")
    abandoned = total(metrics, "voicepipe_tasks_abandoned_total")
    broken = promises(counted, grown, seconds, first, after, status, failures, abandoned, server.errors())
    return {
        "engines": args.engines,
        "minutes": args.minutes,
        "sessions": args.sessions,
        "seed": args.seed,
        "calls": len(books.heard),
        "turned_away": books.refused,
        "faults": dict(books.faults),
        "turns": counted,
        "verdicts": dict(Counter(line["verdict"] for line in ledger)),
        "close_codes": {str(code): n for code, n in Counter(one.closed for one in books.heard).items()},
        "rss_mib": {"first": mib(first.rss_bytes), "after": mib(after.rss_bytes)},
        "rss_mib_per_hour": None
        if grown is None
        else [mib(3600 * value) for value in (grown.middle, grown.low, grown.high)],
        "fds": {"first": first.fds, "most": max((s.fds for s in books.samples), default=0), "after": after.fds},
        "threads": {
            "first": first.threads,
            "most": max((s.threads for s in books.samples), default=0),
            "after": after.threads,
        },
        "leases_after": after.leases,
        "sessions_after": after.sessions,
        "exit_status": status,
        "broken": broken,
    }


def promises(
    counted: dict[str, int],
    grown: Slope | None,
    seconds: float,
    first: Sample,
    after: Sample,
    status: int | None,
    failures: float,
    abandoned: float,
    errors: str,
) -> list[str]:
    """Those that do not hold."""
    checks = {
        f"{counted['missing']} turns without a verdict": not counted["missing"],
        f"{counted['twice']} turns with two": not counted["twice"],
        "no turn at all": counted["committed"] > 0,
        f"{after.leases:.0f} leases left": after.leases == 0,
        f"{after.sessions:.0f} sessions left": after.sessions == 0,
        f"exit status {status}": status == 0,
        f"{failures:.0f} sessions ended by a bug": failures == 0,
        f"{abandoned:.0f} tasks outlived their cancellation": abandoned == 0,
        "a traceback": "Traceback" not in errors,
        f"descriptors: {first.fds} at first, {after.fds} after": after.fds <= first.fds + LEFT_FDS,
        f"threads: {first.threads} at first, {after.threads} after": after.threads <= first.threads + LEFT_THREADS,
        "memory grows": grown is None or grown.low * seconds <= GROWTH_BYTES,
    }
    return [what for what, held in checks.items() if not held]


def mib(value: float) -> float:
    return round(value / (1 << 20), 2)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--engines", choices=("scripted", "default"), default="scripted")
    parser.add_argument("--seed", type=int, default=1, help="of the callers and of what goes wrong")
    return parser.parse_args(argv)


def main() -> None:
    args = arguments()
    voice, speech_s = noise, 0.6
    if args.engines == "default":
        from spoken import questions  # loads models, in a process of its own

        voice, speech_s = questions()
    summary = asyncio.run(run(args, voice, speech_s))
    for name, value in summary.items():
        print(f"{name:<18}{value}")
    print(json.dumps({"summary": summary}))
    sys.exit(1 if summary["broken"] else 0)


if __name__ == "__main__":
    main()
