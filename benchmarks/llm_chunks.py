"""What a reply costs in chunks: time to the first token and clause, per chunk, and memory per slot.

The prompt has about 60 tokens. "cold": an empty slot. "warm": all but the user's last words (about 12 tokens,
the end of the user's turn included) are in the slot already, as they are when a conversation goes on. "equal":
the whole prompt is there, as after a right guess. Memory (on Linux) is the peak of a fresh process that has
made the engine and used every slot once.

Run it on an otherwise idle machine: llama.cpp's threads spin, and one busy neighbour spoils every figure.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from voicepipe.core.clauses import ClauseSplitter
from voicepipe.engines.base import ChatMessage, Context, Generation, LlmStep, Prompt
from voicepipe.engines.llamacpp import LlamaCpp
from voicepipe.models.place import default_root
from voicepipe.models.store import ModelStore

CONTEXT = Context("benchmark", 1, 1, 1)
SYSTEM = ChatMessage(
    "system",
    "You are a friendly voice assistant. Answer in one or two short sentences of plain spoken English,"
    " and never use lists, symbols or abbreviations.",
)
COUNTRIES = (
    *("France", "Italy", "Spain", "Japan", "Egypt", "Peru", "Norway", "Greece", "Cuba", "Chile"),
    *("Austria", "Ireland", "Poland", "Turkey", "Kenya", "India", "Canada", "Mexico", "Iran", "Iceland"),
)

CASES = (
    *((2, 16, "cold"), (2, 16, "warm"), (2, 16, "equal")),
    *((2, 8, "cold"), (2, 32, "cold"), (2, 64, "cold")),
    *((1, 16, "cold"), (1, 16, "warm")),
)
"""Threads, largest prefill chunk in tokens, state of the slot."""

Row = dict[str, float | int | str]


def prompt(country: str, max_tokens: int = 16) -> Prompt:
    asked = ChatMessage("user", f"Tell me please, what is the capital city of {country}?")
    return Prompt((SYSTEM, asked), max_tokens)


def primer() -> Prompt:
    """Leaves the system message and the head of the user's turn in the slot."""
    return Prompt((SYSTEM, ChatMessage("user", "Tell me please, what is a zebra?")), 1)


def timed_steps(generation: Generation) -> Iterator[tuple[LlmStep, float]]:
    finish = None
    while finish is None:
        began = time.perf_counter()
        step = generation.step()
        assert isinstance(step, LlmStep)
        yield step, (time.perf_counter() - began) * 1000
        finish = step.finish


def measure(model: Path, threads: int, prefill: int, state: str, repeats: int) -> Row:
    """Medians over `repeats` replies, in milliseconds; a reply ends with its first clause."""
    engine = LlamaCpp(model, slots=1, threads=threads, prefill_tokens=prefill)
    slot = engine.open("benchmark")
    first_token, first_clause, decode, chunk, new = [], [], [], [], []
    for turn in range(repeats + 1):
        if state == "cold":
            slot.close()
            slot = engine.open("benchmark")
        elif state == "warm":
            list(timed_steps(slot.generate(primer(), CONTEXT)))
        else:
            list(timed_steps(slot.generate(prompt(COUNTRIES[turn % 20]), CONTEXT)))
        splitter, spent, computed, heard = ClauseSplitter(), 0.0, 0, False
        for step, ms in timed_steps(slot.generate(prompt(COUNTRIES[turn % 20]), CONTEXT)):
            spent += ms
            computed += step.prefilled
            if turn and step.prefilled == prefill:
                chunk.append(ms)
            if turn and step.tokens == 4:
                decode.append(ms)
            if turn and step.tokens and not heard:
                first_token.append(spent)
                heard = True
            if splitter.feed(step.text) or step.finish is not None:
                break
        if turn:  # the first is a warm-up
            first_clause.append(spent)
            new.append(computed)
    return {
        "state": state,
        "threads": threads,
        "prefill_tokens": prefill,
        "n": repeats,
        "new_tokens": statistics.median(new),
        "first_token_ms": round(statistics.median(first_token), 1),
        "first_clause_ms": round(statistics.median(first_clause), 1),
        "prefill_chunk_ms": round(statistics.median(chunk), 1) if chunk else 0.0,
        "decode_chunk_ms": round(statistics.median(decode), 1) if decode else 0.0,
    }


def peak_mib(model: Path, slots: int) -> int:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_mib, (model, slots))


def _peak_mib(model: Path, slots: int) -> int:
    engine = LlamaCpp(model, slots=slots)
    for name in map(str, range(slots)):
        list(timed_steps(engine.open(name).generate(prompt("France", 1), CONTEXT)))
    # Not getrusage, whose peak a child process inherits from its parent.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:", 1)[1].split()[0]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--model", type=Path, help="a GGUF file instead of the default model")
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    model = arguments.model or ModelStore(default_root(os.environ)).ensure("smollm2-135m-instruct")
    rows: list[Row] = []
    for threads, prefill, state in CASES:
        row = measure(model, threads, prefill, state, arguments.repeats)
        if not rows:
            print(" ".join(f"{name:>16}" for name in row))
        print(" ".join(f"{value!s:>16}" for value in row.values()), flush=True)
        rows.append(row)
    memory = {slots: peak_mib(model, slots) for slots in (1, 4)}
    print(f"peak memory: {memory[1]} MiB with 1 slot, {memory[4]} MiB with 4")
    print(json.dumps({"summary": {"rows": rows, "peak_mib": memory, "model": model.name}}))


if __name__ == "__main__":
    main()
