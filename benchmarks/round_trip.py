"""Is what is answered what is heard? Five spoken questions; a larger Whisper listens to the replies.

Prints the word errors of the transcripts against the questions, and of the larger model's hearing of the reply
WAVs against the reply texts, beside the felt gap of each turn.

    python benchmarks/round_trip.py [--out DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from clips import QUESTIONS, RATE_HZ, Labelled, label
from faster_whisper import WhisperModel
from wer import corpus_wer

from voicepipe.app import serving
from voicepipe.audio import from_pcm16, resample, write_wav
from voicepipe.config import Config, LimitsConfig
from voicepipe.engines.table import find_models, load
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore
from voicepipe.warmup import speak
from voicepipe_client import Clip, ClipSource, TurnRecord, connect, spread, talk

LISTENER = "whisper-base"
WHISPER_HZ = 16_000


@dataclass(frozen=True)
class Asked:
    question: Labelled
    record: TurnRecord
    reply: bytes
    rate_hz: int


async def ask(port: int, question: Labelled) -> Asked:
    loop, played = asyncio.get_running_loop(), bytearray()
    async with connect(f"ws://127.0.0.1:{port}", rate=RATE_HZ) as session:
        clip = Clip(question.name, question.samples, len(question.samples))
        source = ClipSource([clip], RATE_HZ, clock=loop.time, sleep=asyncio.sleep)
        report = await talk(session, source, played=played.extend)
        return Asked(question, report.turns[-1], bytes(played), session.ready.output_rate)


async def ask_all(store: ModelStore) -> list[Asked]:
    config = Config(port=0, limits=LimitsConfig(max_sessions=1, grace_s=1.0))
    models = find_models(config.engines, store.resolve)
    async with serving(config, lambda: load(config.engines, models, sessions=1, api_key=None)) as served:
        tts, on_thread = served.engines.tts, served.on_thread
        questions = [
            label(f"q{number}", resample(await speak(tts, text, on_thread), tts.sample_rate_hz, RATE_HZ), text)
            for number, text in enumerate(QUESTIONS[:5], 1)
        ]
        return [await ask(served.server.port, question) for question in questions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for the reply WAVs")
    args = parser.parse_args()
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    listener_dir = store.ensure(LISTENER)
    asked = asyncio.run(ask_all(store))
    listener = WhisperModel(str(listener_dir), device="cpu", compute_type="int8", cpu_threads=2)
    questions, replies = [], []
    for one in asked:
        samples = from_pcm16(one.reply)
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            write_wav(args.out / f"{one.question.name}.wav", samples, one.rate_hz)
        segments, _ = listener.transcribe(resample(samples, one.rate_hz, WHISPER_HZ), language="en", beam_size=5)
        heard = " ".join(segment.text.strip() for segment in segments)
        questions.append((one.question.text or "", one.record.transcript))
        replies.append((one.record.reply, heard))
        felt = one.record.felt_ms
        print(f"{one.question.name}  felt {'null' if felt is None else f'{felt:.0f} ms'}  {one.record.verdict}")
        print(f"  asked    {one.question.text}\n  heard    {one.record.transcript}")
        print(f"  replied  {one.record.reply}\n  sounded  {heard}")
    result = {
        "n": len(asked),
        "question_wer": round(corpus_wer(questions).rate, 4),
        "reply_wer": round(corpus_wer(replies).rate, 4),
        "distinct_replies": len({heard for _, heard in replies}),
        "felt_ms": spread([one.record.felt_ms for one in asked]),
    }
    print(json.dumps({"summary": result}))


if __name__ == "__main__":
    main()
