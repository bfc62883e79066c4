"""How far the simulator is from a server: the same calls to both, system gaps side by side.

Regime: a real server with scripted engines, in real time, over WebSockets on loopback; several callers at once,
whose instants are drawn beforehand, and who send sound all the time, as microphones do. Work takes so long that no
answer is ready at its commit: what is compared is made of service, of waiting for others and of hand-offs, and not
of a send. Its ledger is what the service model is fitted to (`sim.calibrate`); the simulator plays the same calls
with that model, with a few seeds for its draws.

Compared is the system gap: from the commit to the first content at the socket. Intervals are 95 % bootstraps of the
ratio of simulated to real, over whole sessions. Needs a quiet machine: what else runs on it delays the real one.

Prints a table, and as its last line {"summary": {...}}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from arrivals import Call, Habits, arrivals
from caller import LOUD, PACKET_S, RATE_HZ, Send, Voice, noise
from caller import Played as RealPlayed
from replies import scripted_engines
from street import Books, walk

from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.core.events import Timing, TurnRecord, Work
from voicepipe.ledgers import chunk_entry, turn_entry
from voicepipe.sim.calibrate import calibrate
from voicepipe.sim.caller import Call as SimCall
from voicepipe.sim.caller import Utterance
from voicepipe.sim.ears import Ears
from voicepipe.sim.experiment import Chart, Mark, Series
from voicepipe.sim.recogniser import Scripted
from voicepipe.sim.replies import Reply
from voicepipe.sim.scene import Scene, play
from voicepipe.sim.service import ServiceModel, scripted
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_client

SESSIONS = 8.0
SECONDS = 200.0
FILL_S = 15.0
UPLINK_S = 0.0005
"""On loopback, from the end of a packet."""
SEEDS = 10
SAMPLES = 2000
LETTERS = "bcdfghklmnprstvw"
WORDS = "What do the many people of this town really like to do here in"
TRANSCRIPTS = tuple(
    f"{WORDS} {month}?" for month in ("spring", "summer", "autumn", "winter", "March", "May", "June")
)
"""Longer than anybody speaks: no partial transcript sounds finished, so that replies begin with the final one."""
SCRIPT = ScriptedConfig(
    transcripts=TRANSCRIPTS, asr_ms=12.0, llm_prefill_ms=30.0, llm_token_ms=12.0, tts_ms=60.0, tts_piece_ms=1600.0
)
CONFIG = Config(
    port=0,
    engines=EnginesConfig(kind="scripted", scripted=SCRIPT),
    admission=AdmissionConfig(policy="none"),
    limits=LimitsConfig(max_sessions=64),
)


class Ledger(Books):
    """Keeps lines as well."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def on_chunk(self, work: Work, timing: Timing, lane: str) -> None:
        self.lines.append(json.dumps(chunk_entry(work, timing, lane)))

    def on_record(self, session: str, record: TurnRecord) -> None:
        super().on_record(session, record)
        self.lines.append(json.dumps(turn_entry(session, record)))


def various(said: str, own: Reply, *, whole: bool) -> Reply:
    """As `benchmarks/replies.py` has it: five words, the fourth of which hangs on what was said."""
    told = crc32(f"{own.text} {said}".encode())
    word = "".join(LETTERS[told >> 4 * place & 15] for place in range(8))
    return Reply(f"This is a {word} reply.")


async def stream(send: Send, call: Call, began: float, voice: Voice) -> None:
    """As a microphone does: a packet every 20 ms, whether somebody speaks or not. Speech begins and ends where it
    does, and not with a packet."""
    clock = asyncio.get_running_loop().time
    audio = wire.AudioFormat(rate=RATE_HZ, channels=1)
    await send(encode_client(wire.SessionStart(audio=audio, protocol="voicepipe.v1")))
    size = round(PACKET_S * RATE_HZ)
    sound = np.random.default_rng(1).uniform(-LOUD, LOUD, size) * 32767
    for number in range(round((call.end - call.at) / PACKET_S)):
        begin = number * size
        loud = np.zeros(size, bool)
        for question in call.questions:
            first, last = (round((at - call.at) * RATE_HZ) - begin for at in (question.begin, question.end))
            loud[max(0, first) : max(0, min(size, last))] = True
        await asyncio.sleep(began + call.at + (number + 1) * PACKET_S - clock())
        pcm = np.where(loud, sound, 0.0).astype("<i2").tobytes()
        await send(encode_client(wire.AudioFrame(0, begin, pcm)))
    await send(encode_client(wire.SessionEnd()))


def as_simulated(calls: Sequence[Call]) -> tuple[SimCall, ...]:
    """What the same callers do, as the simulator has it."""
    return tuple(
        SimCall(call.at, call.end, tuple(_utterance(call, index) for index in range(len(call.questions))))
        for call in calls
    )


def _utterance(call: Call, index: int) -> Utterance:
    question = call.questions[index]
    words = tuple(TRANSCRIPTS[index % len(TRANSCRIPTS)].rstrip("?").split())
    never, ends = (False,) * len(words), (question.end,) * len(words)
    own = Reply(f"call {call.at} question {index}")
    return Utterance(question.begin, question.end, words, ends, "?", never, never, False, (), 1e-4, own)


def simulated(calls: Sequence[Call], service: ServiceModel, end: float, seed: int) -> dict[int, list[float]]:
    """System gaps by call."""
    scene = Scene(
        seed=seed,
        begin_s=FILL_S,
        seconds=end - FILL_S,
        calls=as_simulated(calls),
        service=service,
        admission=CONFIG.admission,
        max_sessions=CONFIG.limits.max_sessions,
        ladder=CONFIG.ladder,
        ears=Ears(packet_s=PACKET_S, uplink_s=UPLINK_S, voiced_every_s=0.032),
        recogniser=Scripted(),
        reply_to=various,
        frame_s=0.02,
    )
    return by_call((asked.call, asked.record) for asked in play(scene).asked)


def real(calls: Sequence[Call], end: float) -> tuple[RealPlayed, Ledger]:
    ledger = Ledger()
    load = lambda: scripted_engines(CONFIG)  # noqa: E731
    return asyncio.run(walk(CONFIG, load, calls, noise, FILL_S, end, ledger, stream)), ledger


def by_call(pairs: Iterable[tuple[int, TurnRecord | None]]) -> dict[int, list[float]]:
    gaps: dict[int, list[float]] = {}
    for call, record in pairs:
        if record is not None and record.system_s is not None:
            gaps.setdefault(call, []).append(1000 * record.system_s)
    return gaps


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = ordered[int(at)]
    return low + (at - int(at)) * (ordered[min(int(at) + 1, len(ordered) - 1)] - low)


def flat(gaps: dict[int, list[float]]) -> list[float]:
    return [gap for of_call in gaps.values() for gap in of_call]


@dataclass(frozen=True, slots=True)
class Ratio:
    real_ms: float
    simulated_ms: float
    ratio: float
    low: float
    high: float


def compare(ours: dict[int, list[float]], theirs: dict[int, list[float]], share: float) -> Ratio:
    """`ours` simulated, `theirs` real; sessions are drawn anew on both sides."""
    chance = random.Random(1)

    def again(gaps: dict[int, list[float]]) -> list[float]:
        return [gap for call in chance.choices(list(gaps), k=len(gaps)) for gap in gaps[call]]

    drawn = sorted(quantile(again(ours), share) / quantile(again(theirs), share) for _ in range(SAMPLES))
    real_ms, simulated_ms = quantile(flat(theirs), share), quantile(flat(ours), share)
    low, high = drawn[round(0.025 * SAMPLES)], drawn[round(0.975 * SAMPLES)]
    return Ratio(real_ms, simulated_ms, simulated_ms / real_ms, low, high)


def chart(ours: Sequence[float], theirs: Sequence[float]) -> Chart:
    def curve(name: str, values: Sequence[float]) -> Series:
        shares = tuple(index / 200 for index in range(201))
        return Series(name, tuple(quantile(values, share) for share in shares), shares)

    return Chart(
        title="The simulated system gap is distributed as the real server's",
        x="system gap, commit to the first content at the socket (ms)",
        y="share of turns",
        series=(curve(f"server, {len(theirs)} turns", theirs), curve("simulator, same calls", ours)),
        marks=(Mark("y", 0.5, "median"), Mark("y", 0.95, "p95")),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=float, default=SESSIONS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--ledger", type=Path, help="keep the server's")
    args = parser.parse_args()
    habits = Habits(question_s=(1.0, 3.0))
    calls = arrivals(args.sessions, args.seconds, habits, args.seed)
    played, ledger = real(calls, args.seconds)
    if args.ledger:
        args.ledger.write_text("".join(f"{line}\n" for line in ledger.lines))
    service = calibrate(ledger.lines, manner=scripted(SCRIPT).manner)
    theirs = by_call((asked.call, asked.record) for asked in played.asked)
    runs = [simulated(calls, service, args.seconds, seed) for seed in range(1, SEEDS + 1)]
    ours = {call: [gap for run in runs for gap in run.get(call, [])] for call in runs[0]}
    ratios = {name: compare(ours, theirs, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    print(f"{'':>4} {'server ms':>10} {'simulator ms':>13} {'ratio':>6}  95 % interval")
    for name, one in ratios.items():
        print(
            f"{name:>4} {one.real_ms:10.1f} {one.simulated_ms:13.1f} {one.ratio:6.3f}  "
            f"{one.low:.3f} to {one.high:.3f}"
        )
    if args.plot:
        from voicepipe.sim.pictures import save  # needs the extra `plot`, which nothing else here does

        save([chart(flat(ours), flat(theirs))], args.plot)
    summary = {
        "n": len(flat(theirs)),
        "simulated": len(flat(ours)),
        "sessions": args.sessions,
        **{name: {key: round(getattr(one, key), 3) for key in Ratio.__slots__} for name, one in ratios.items()},
    }
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
