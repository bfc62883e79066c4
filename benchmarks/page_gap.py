"""The felt gap as the page has it, beside what the server estimates: labelled questions into a real Chromium.

The browser's fake microphone plays one WAV of questions with known ends. Both instants are on one clock, that of
the page's sound: speech ends when the capture worklet hands on the last labelled sample (found by correlating the
WAV with what the page sent), and the answer is audible in the first 10 ms window above -50 dBFS that the playback
worklet hands on, plus what the browser says that the loudspeaker adds. The page takes the loudspeaker's part off
what it reports as heard, so that it is in the server's estimate too.

The difference is explained by holding both clocks against each other. It is

    place + held + network - sound

`place`: how much later in the sound the server puts the end of speech than the label does, below nothing where it
takes the last of it for silence. `held`: how old the newest sample was when it left the page, of the packet by
whose arrival the server reckoned; a busy page keeps sound back. `network`: from there until the server had it.
`sound`: how much later the server believes that the answer sounds, by the page's `report` or its own `estimate`.

Beside them, and no part of the sum: `tail` is how much longer than the label the sound is audible in what was sent,
since a browser's echo canceller and noise suppressor let it fade instead of end (`--raw` does without them);
`loudspeaker` is what the browser says that it adds, and `queued` how long the answer's first frame had been in the
page when it sounded, most of it jitter buffer: both are in either figure. Where `held` or `network` of a turn are
above what they are at rest, the machine was busy with something else, and by so much the server's estimate is too
short.

    python benchmarks/page_gap.py                      # ten questions, 2 minutes
    python benchmarks/page_gap.py --raw                # without the browser's processing
    python benchmarks/page_gap.py --engines scripted   # a tone asks, and needs no model
    python benchmarks/page_gap.py --full               # three times as many

Needs playwright (extra `test`) and a Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import shutil
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from clips import QUESTIONS, RATE_HZ, Labelled, default_clips, label
from labelled import tone

from voicepipe.app import serving
from voicepipe.audio import Samples, last_audible, resample, silence, write_wav
from voicepipe.config import Config, EnginesConfig, LimitsConfig
from voicepipe.core import events as core
from voicepipe.ears import Ears
from voicepipe.engines.table import find_models, load
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore
from voicepipe.recorders import Recorders
from voicepipe.resources import browser_dir
from voicepipe_client import spread

INSTRUCTIONS = "You are a helpful voice assistant. Answer in one short sentence."
REPLY_TOKENS = 16
LEAD_S, BETWEEN_S = 1.0, 7.0
"""Silence before the first question, and behind each: for the answer."""
NEAR_S = 0.5
"""Later questions are looked for this near to where the first one says that they are."""
WITHIN_MS = 30.0
PARTS = ("place", "held", "network", "sound")
"""The difference is the first three less the last."""
BESIDE = ("tail", "loudspeaker", "queued")
TRIES = 20
CLOCKS_NEAR_S = 3.0
TAIL_S = 0.3
"""The longest that is looked for."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--use-fake-device-for-media-stream",
)
WATCH = """() => {
  const seen = (window.seen = { frames: [], left: [], sounds: [], commits: [], clocks: [], begun: {} });
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    if (typeof data !== "string") {
      seen.frames.push(data.slice(0));
      seen.left.push(performance.now() / 1000);
    }
    return send.call(this, data);
  };
  const { talk } = voicepipe;
  const { onAudible } = talk;
  talk.onAudible = (epoch, frame) => {
    seen.sounds.push({ epoch, s: frame / talk.sound.rate_hz, latency_s: talk.sound.latency_s });
    onAudible.call(talk, epoch, frame);
  };
  const { onAudio } = talk;
  talk.onAudio = (audio) => {
    seen.begun[audio.epoch] ??= talk.now();
    onAudio.call(talk, audio);
  };
  const { message } = talk.hooks;
  talk.hooks.message = (said) => {
    seen.clocks.push([talk.now(), performance.now() / 1000]);
    const { type, turn, epoch } = said;
    if (type === "turn.committed") seen.commits.push({ turn, epoch });
    message(said);
  };
}"""
RAW = """{
  const { mediaDevices } = navigator;
  const getUserMedia = mediaDevices.getUserMedia.bind(mediaDevices);
  const off = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  mediaDevices.getUserMedia = ({ audio }) => getUserMedia({ audio: { ...audio, ...off } });
}"""
TAKE = """() => {
  const { seen } = window;
  const view = (frame) => new Uint8Array(frame);
  const text = (bytes) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return { ...seen, frames: seen.frames.map((frame) => text(view(frame))),
           underruns: voicepipe.talk.sound.counters.underruns, missed: voicepipe.talk.sound.counters.missed,
           rate_hz: voicepipe.talk.sound.rate_hz, began: voicepipe.talk.sound.clockBegan };
}"""


@dataclass(frozen=True, slots=True)
class Gap:
    """One question as page and server had it. Milliseconds."""

    name: str
    verdict: str
    page: float
    server: float
    place: float
    held: float
    network: float
    sound: float
    tail: float
    loudspeaker: float
    queued: float
    by: str
    """Of the server's instant of sound: `report` or `estimate`."""

    @property
    def difference(self) -> float:
        return self.page - self.server


@dataclass
class Books:
    """A recorder: keeps the server's turns, by number."""

    turns: dict[int, core.TurnRecord] = field(default_factory=dict)

    def on_chunk(self, work: core.Work, timing: core.Timing, lane: str) -> None:
        """Chunks are in the turns' parts."""

    def on_record(self, session: str, record: core.TurnRecord) -> None:
        self.turns[record.turn] = record


def recording(clips: Sequence[Labelled]) -> tuple[Samples, list[int]]:
    """All of them in a row, and where each begins."""
    pieces, starts, at = [silence(round(LEAD_S * RATE_HZ))], [], round(LEAD_S * RATE_HZ)
    for clip in clips:
        starts.append(at)
        pieces += [clip.samples, silence(round(BETWEEN_S * RATE_HZ))]
        at += len(clip.samples) + round(BETWEEN_S * RATE_HZ)
    return np.concatenate(pieces), starts


def offset_of(frame: str) -> int:
    return int.from_bytes(base64.b64decode(frame[:12])[4:8], "big")


def sent_sound(frames: Sequence[str], rate_hz: int) -> Samples:
    """What the page sent, from its clock's beginning, at `RATE_HZ`."""
    raw = [base64.b64decode(frame) for frame in frames]
    offsets = [offset_of(frame) for frame in frames]
    sound = np.zeros(offsets[-1] + len(raw[-1]), np.float32)
    for frame, offset in zip(raw, offsets, strict=True):
        pcm = np.frombuffer(frame[8:], "<i2").astype(np.float32) / 32768
        sound[offset : offset + len(pcm)] = pcm
    return resample(sound, rate_hz, RATE_HZ)


def find(clip: Samples, sound: Samples) -> int:
    """Where in `sound` the clip lies best."""
    size = len(sound) + len(clip)
    product = np.fft.irfft(np.fft.rfft(sound, size) * np.conj(np.fft.rfft(clip, size)), size)
    return int(np.argmax(np.abs(product[: max(1, len(sound) - len(clip))])))


def ends_of(clips: Sequence[Labelled], starts: Sequence[int], sound: Samples) -> list[int]:
    """One past each clip's last labelled sample, in the captured sound."""
    near = round(NEAR_S * RATE_HZ)
    first = find(clips[0].samples, sound[: starts[0] + len(clips[0].samples) + round(5 * RATE_HZ)])
    shift, ends = first - starts[0], []
    for clip, start in zip(clips, starts, strict=True):
        begin = max(0, start + shift - near)
        found = begin + find(clip.samples, sound[begin : start + shift + len(clip.samples) + near])
        ends.append(found + clip.speech_end)
    return ends


def tail_ms(sound: Samples, end: int) -> float:
    """For how long behind `end` the sound stays audible."""
    behind = sound[end - RATE_HZ // 100 : end + round(TAIL_S * RATE_HZ)]
    last = last_audible(behind, RATE_HZ)
    return 0.0 if last is None else max(0.0, 1000 * last / RATE_HZ - 10)


def zero_near(sound_s: float, clocks: Sequence[tuple[float, float]]) -> float:
    """The server's time at which the page's sound began to count, as it was near `sound_s`: a device that stalls
    shifts it. That clock stands still within a device's callback, so that the least difference holds."""
    near = [server_s - at_s for at_s, server_s in clocks if abs(at_s - sound_s) < CLOCKS_NEAR_S]
    return min(near)


@dataclass(frozen=True, slots=True)
class Packet:
    """20 ms of the microphone on their way; s."""

    newest_s: float
    """Of its last sample, by the page's sound; the rest is by the server's clock."""
    left: float
    arrived: float


def packet_before(instant: float, packets: Sequence[Packet]) -> Packet:
    """The newest one that had arrived: by its arrival the server reckons when its samples were spoken."""
    return packets[max(0, bisect_right(packets, instant, key=lambda packet: packet.arrived) - 1)]


def gaps(
    clips: Sequence[Labelled],
    ends: Sequence[float],
    tails: Sequence[float],
    seen: dict[str, Any],
    turns: dict[int, core.TurnRecord],
) -> list[Gap]:
    """Of each question the first answer behind its end; those that were answered before it had ended have none.

    `seen["clocks"]`: the page's time of sound, and at the same instant the server's; `seen["packets"]` in order."""
    turn_of = {commit["epoch"]: commit["turn"] for commit in seen["commits"]}
    found = []
    for clip, end_s, next_s, tail in zip(clips, ends, [*ends[1:], float("inf")], tails, strict=True):
        sound = next((s for s in seen["sounds"] if end_s < s["s"] < next_s), None)
        record = None if sound is None else turns.get(turn_of.get(sound["epoch"], 0))
        if sound is None or record is None or record.felt_estimate_s is None:
            continue
        zero_s = zero_near(end_s, seen["clocks"])
        if record.instants.speech_end is None or (record.instants.commit or 0.0) < zero_s + end_s:
            continue
        found.append(gap_of(clip.name, end_s, tail, zero_s, seen, sound, record))
    return found


def gap_of(
    name: str,
    end_s: float,
    tail_ms: float,
    zero_s: float,
    seen: dict[str, Any],
    sound: dict[str, Any],
    record: core.TurnRecord,
) -> Gap:
    at, felt_s = record.instants, record.felt_estimate_s
    assert at.speech_end is not None and at.soft_end is not None and felt_s is not None
    packet = packet_before(at.soft_end, seen["packets"])
    heard_s = sound["s"] + sound["latency_s"]
    believed_s = at.speech_end + felt_s
    told = at.heard is not None and abs(at.heard - believed_s) < 1e-6
    times_s = {
        "page": heard_s - end_s,
        "server": felt_s,
        "place": at.speech_end - packet.arrived + packet.newest_s - end_s,
        "held": packet.left - zero_s - packet.newest_s,
        "network": packet.arrived - packet.left,
        "sound": believed_s - zero_s - heard_s,
        "loudspeaker": sound["latency_s"],
        "queued": sound["s"] - seen["begun"][str(sound["epoch"])],
    }
    times_ms = {part: 1000 * seconds for part, seconds in times_s.items()}
    return Gap(name, record.verdict.value, **times_ms, tail=tail_ms, by="report" if told else "estimate")


@contextmanager
def arrivals() -> Iterator[list[tuple[float, int]]]:
    """When the server had each packet, and the page's clock of samples at its end."""
    seen: list[tuple[float, int]] = []
    on_audio = Ears.on_audio

    def noted(ears: Ears, pcm: bytes, offset_samples: int | None) -> None:
        assert offset_samples is not None, "the page numbers its samples"
        seen.append((asyncio.get_running_loop().time(), offset_samples + len(pcm) // 2))
        on_audio(ears, pcm, offset_samples)

    Ears.on_audio = noted  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Ears.on_audio = on_audio  # type: ignore[method-assign]


def packets_of(seen: dict[str, Any], arrived: Sequence[tuple[float, int]]) -> list[Packet]:
    """Those of which both sides know."""
    size = (len(base64.b64decode(seen["frames"][0])) - 8) // 2
    left_at = {offset_of(frame) + size: at for frame, at in zip(seen["frames"], seen["left"], strict=True)}
    rate_hz, began = round(seen["rate_hz"]), seen["began"]
    return [Packet((began + end) / rate_hz, left_at[end], at) for at, end in arrived if end in left_at]


async def clocks_apart(page: Any) -> float:
    """This process's clock less the page's, s: by the quickest of some questions."""
    loop, tries = asyncio.get_running_loop(), []
    for _ in range(TRIES):
        asked = loop.time()
        page_s = await page.evaluate("performance.now() / 1000")
        took = loop.time() - asked
        tries.append((took, asked + took / 2 - page_s))
    return min(tries)[1]


def driver() -> Any:
    """Playwright, to be entered."""
    try:
        from playwright.async_api import async_playwright
    except ModuleNotFoundError:
        raise SystemExit("playwright is not installed: pip install -e '.[test]'") from None
    return async_playwright()


def chromium_path() -> str:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise SystemExit("there is no chromium or google-chrome on this machine")
    return path


async def converse(url: str, wav: Path, seconds: float, *, raw: bool) -> dict[str, Any]:
    """Open the page, press Start, and let the microphone play to its end."""
    async with driver() as playwright:
        flags = [*FLAGS, f"--use-file-for-fake-audio-capture={wav}%noloop"]
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=flags)
        context = await browser.new_context(permissions=["microphone"])
        page = await context.new_page()
        if raw:
            await page.add_init_script(RAW)
        await page.goto(url)
        await page.evaluate(WATCH)
        await page.click("#talk")
        await asyncio.sleep(seconds + 1.0)
        apart_s = await clocks_apart(page)
        seen: dict[str, Any] = await page.evaluate(TAKE)
        seen["left"] = [page_s + apart_s for page_s in seen["left"]]
        seen["clocks"] = [(sound_s, page_s + apart_s) for sound_s, page_s in seen["clocks"]]
        await browser.close()
        return seen


async def measure(args: argparse.Namespace) -> tuple[int, list[Gap], int]:
    """How many were asked, those that were answered, and how often sound ran out within an answer."""
    engines = EnginesConfig(kind=args.engines)
    config = Config(
        port=0,
        engines=engines,
        instructions=INSTRUCTIONS,
        max_reply_tokens=REPLY_TOKENS,
        limits=LimitsConfig(max_sessions=1, grace_s=1.0),
    )
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    is_real = args.engines != "scripted"
    models = find_models(engines, store.resolve) if is_real else None
    loader = lambda: load(engines, models, sessions=1, api_key=None)  # noqa: E731
    async with AsyncExitStack() as stack:
        books = Books()
        recorders = Recorders(observers=(books,))
        served = await stack.enter_async_context(
            serving(config, loader, web_files=browser_dir(), recorders=recorders)
        )
        if is_real:
            clips = await default_clips(served.engines.tts, None, served.on_thread)
        else:
            clips = [label(f"q{n}", tone(text.replace(",", ""), 1.0), None) for n, text in enumerate(QUESTIONS, 1)]
        clips = clips[: args.turns] * (3 if args.full else 1)
        samples, starts = recording(clips)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        wav = folder / "questions.wav"
        write_wav(wav, samples, RATE_HZ)
        arrived = stack.enter_context(arrivals())
        seen = await converse(f"http://127.0.0.1:{served.server.port}/", wav, len(samples) / RATE_HZ, raw=args.raw)
    rate_hz = round(seen["rate_hz"])
    seen["packets"] = packets_of(seen, arrived)
    sound = sent_sound(seen["frames"], rate_hz)
    ends = ends_of(clips, starts, sound)
    ends_s = [seen["began"] / rate_hz + end / RATE_HZ for end in ends]
    found = gaps(clips, ends_s, [tail_ms(sound, end) for end in ends], seen, books.turns)
    return len(clips), found, seen["underruns"]


def table(found: Sequence[Gap]) -> str:
    names = ("page", "server", "difference", *PARTS, *BESIDE)
    lines = [f"{'question':<9}{'verdict':<10}{'by':<9}" + "".join(f"{name:>12}" for name in names)]
    lines += [
        f"{gap.name:<9}{gap.verdict:<10}{gap.by:<9}" + "".join(f"{getattr(gap, name):>9.1f} ms" for name in names)
        for gap in found
    ]
    medians = "".join(f"{middle(found, name):>9.1f} ms" for name in names)
    return "\n".join([*lines, f"{'median':<28}{medians}", "difference = place + held + network - sound"])


def middle(found: Sequence[Gap], name: str) -> float:
    """The median by nearest rank, as everywhere."""
    value = spread([getattr(gap, name) for gap in found])["p50"]
    assert value is not None, "every gap is a number"
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", choices=("default", "scripted"), default="default")
    parser.add_argument("--turns", type=int, default=10, metavar="N", help="of the ten questions, so many")
    parser.add_argument("--full", action="store_true", help="ask each three times")
    parser.add_argument("--raw", action="store_true", help="without the browser's processing of the microphone")
    args = parser.parse_args()
    asked, found, underruns = asyncio.run(measure(args))
    if not found:
        raise SystemExit(f"none of {asked} questions was answered after its end")
    print(table(found))
    summary = {
        "asked": asked,
        "n": len(found),
        "page_ms": spread([gap.page for gap in found]),
        "server_ms": spread([gap.server for gap in found]),
        **{f"{name}_ms_p50": round(middle(found, name), 1) for name in ("difference", *PARTS, *BESIDE)},
        "underruns": underruns,
        "within_30_ms": abs(middle(found, "difference")) <= WITHIN_MS,
        "engines": args.engines,
        "raw": args.raw,
    }
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
