"""What a page keeps of a long conversation: its memory while somebody talks to it, in real time.

A Chromium's fake microphone says the same sound over and over to a server with scripted engines. Every half minute
what can be collected is collected, and the page's JavaScript heap, what lies beside it (sound), its nodes and the
memory of its process are noted. The first minutes fill what the page shows (100 turns) and the browser's caches;
flat is what no longer grows in the second half.

    python benchmarks/page_memory.py          # 5 minutes
    python benchmarks/page_memory.py --full   # 10 minutes

Needs playwright (extra `test`), a Chromium, and Linux for the process's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from page_gap import FLAGS, RATE_HZ, chromium_path, driver

from voicepipe.app import serving
from voicepipe.audio import silence, write_wav
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.table import load
from voicepipe.resources import browser_dir

EVERY_S = 30.0
SENTENCE_S, PAUSE_S = 1.0, 2.0
SYLLABLES_HZ, TONE_HZ = 5.0, 220.0
MINUTES, MINUTES_FULL = 5, 10
FLAT_MIB_PER_MINUTE = 0.1
"""Of the heap and what lies beside it: ten minutes a megabyte."""


@dataclass(frozen=True, slots=True)
class Use:
    minute: float
    turns: int
    heap_mib: float
    beside_mib: float
    nodes: int
    process_mib: float


def spoken(path: Path) -> None:
    """Endless, as the browser begins it again."""
    time_s = np.arange(round(SENTENCE_S * RATE_HZ)) / RATE_HZ
    swell = 0.5 * (1 - np.cos(2 * np.pi * SYLLABLES_HZ * time_s))  # or the browser takes it for noise
    said = (0.5 * swell * np.sin(2 * np.pi * TONE_HZ * time_s)).astype(np.float32)
    write_wav(path, np.concatenate([said, silence(round(PAUSE_S * RATE_HZ))]), RATE_HZ)


def renderers_mib(root: int) -> float:
    """Resident memory of all pages' processes below the process `root`."""
    parents, sizes = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(status["PPid"])
        if b"--type=renderer" in command:
            sizes[int(folder.name)] = int(status.get("VmRSS", "0").split()[0]) / 1024

    def is_below(process: int) -> bool:
        while process in parents and process != root:
            process = parents[process]
        return process == root

    return sum(size for process, size in sizes.items() if is_below(process))


async def look(page: Any, tools: Any, minute: float) -> Use:
    await tools.send("HeapProfiler.collectGarbage")
    heap = await tools.send("Runtime.getHeapUsage")
    counts = await tools.send("Memory.getDOMCounters")
    turns = await page.evaluate(
        "Number(document.querySelector('[data-part=which]').textContent.split(' ')[1] ?? 0)"
    )
    mib = 1024 * 1024
    return Use(
        round(minute, 1),
        turns,
        round(heap["usedSize"] / mib, 2),
        round(heap.get("backingStorageSize", 0) / mib, 2),
        counts["nodes"],
        round(renderers_mib(os.getpid()), 1),
    )


async def talk(minutes: float) -> list[Use]:
    scripted = ScriptedConfig(reply="Yes, certainly.")
    config = Config(
        port=0,
        engines=EnginesConfig(kind="scripted", scripted=scripted),
        limits=LimitsConfig(max_sessions=1, grace_s=1.0),
    )
    loader = lambda: load(config.engines, None, sessions=1, api_key=None)  # noqa: E731
    loop, uses = asyncio.get_running_loop(), []
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serving(config, loader, web_files=browser_dir()))
        wav = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "talk.wav"
        spoken(wav)
        playwright = await stack.enter_async_context(driver())
        flags = [*FLAGS, f"--use-file-for-fake-audio-capture={wav}"]
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=flags)
        context = await browser.new_context(permissions=["microphone"])
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{served.server.port}/")
        await page.click("#talk")
        tools = await context.new_cdp_session(page)
        began = loop.time()
        while (minute := (loop.time() - began) / 60) < minutes:
            await asyncio.sleep(EVERY_S)
            uses.append(await look(page, tools, minute + EVERY_S / 60))
            print("".join(f"{value:>13}" for value in asdict(uses[-1]).values()), flush=True)
        await browser.close()
    return uses


def growth(uses: list[Use]) -> float:
    """MiB a minute of heap and what lies beside it, by least squares over the second half."""
    half = uses[len(uses) // 2 :]
    sizes = [use.heap_mib + use.beside_mib for use in half]
    mean_x, mean_y = sum(use.minute for use in half) / len(half), sum(sizes) / len(half)
    above = sum((use.minute - mean_x) * (size - mean_y) for use, size in zip(half, sizes, strict=True))
    below = sum((use.minute - mean_x) ** 2 for use in half)
    return above / below if below else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help=f"{MINUTES_FULL} minutes instead of {MINUTES}")
    args = parser.parse_args()
    print("".join(f"{field.name:>13}" for field in fields(Use)))
    uses = asyncio.run(talk(MINUTES_FULL if args.full else MINUTES))
    slope = growth(uses)
    summary = {
        "minutes": uses[-1].minute,
        "turns": uses[-1].turns,
        "heap_mib": uses[-1].heap_mib,
        "growth_mib_per_minute": round(slope, 3),
        "process_mib": uses[-1].process_mib,
        "is_flat": slope <= FLAT_MIB_PER_MINUTE,
    }
    print(json.dumps({"summary": summary}))


if __name__ == "__main__":
    main()
