"""What every engine behind a Protocol has to do, as checks that any engine can be put through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import numpy as np
import pytest

from voicepipe.engines.base import (
    Asr,
    ChatMessage,
    Context,
    Llm,
    LlmStep,
    Prompt,
    Samples,
    StepSize,
    Tts,
    TtsStep,
    TurnModel,
    Vad,
    Window,
)
from voicepipe.errors import EngineBusy

RATE_HZ = 16_000
MAX_STEPS = 2_000
"""Far above what any reply or clause here takes: an engine that goes on beyond it does not end."""


def context(turn: int = 1, epoch: int = 1) -> Context:
    return Context("contract", turn, epoch, 0, 200.0)


async def settled(value: Any, placement: str) -> Any:
    """A chunk's value; an awaitable where, and only where, the engine says so."""
    assert isinstance(value, Awaitable) == (placement == "loop")
    return await value if isinstance(value, Awaitable) else value


async def check_vad(vad: Vad) -> None:
    """Frames in, probabilities out; silence is no speech; streams share no state."""
    assert vad.name and vad.placement in ("thread", "loop") and 0 <= vad.lag_s < 0.5
    stream, other = vad.open(), vad.open()
    rng = np.random.default_rng(1)
    size = stream.frame_samples
    assert 128 <= size <= 1600
    noisy = [rng.normal(0, 0.2, size).astype(np.float32) for _ in range(20)]
    for frame in noisy:
        assert 0.0 <= await settled(stream.probability(frame), vad.placement) <= 1.0
    silent = [await settled(other.probability(np.zeros(size, np.float32)), vad.placement) for _ in range(20)]
    assert max(silent) < 0.35
    bad = np.full(size, np.nan, np.float32)
    assert np.isfinite(await settled(stream.probability(bad), vad.placement))


async def check_turn_model(model: TurnModel, speech: Samples) -> float:
    """A score in [0, 1], of however much or little sound. The one of `speech`."""
    assert model.name and model.placement in ("thread", "loop")
    for audio in (speech[:160], speech, np.tile(speech, 10), np.full(1600, np.nan, np.float32)):
        assert 0.0 <= await settled(model.completeness(audio, context()), model.placement) <= 1.0
    score: float = await settled(model.completeness(speech, context()), model.placement)
    return score


async def check_asr(asr: Asr, speech: Samples) -> str:
    """Partials grow, a final is whole, a new utterance forgets the last. The text of the final."""
    assert asr.name and asr.placement in ("thread", "loop")
    stream = asr.open()

    async def decode(turn: int, start: int, end: int, *, final: bool) -> Any:
        begin = max(start, stream.window_start)
        window = Window(turn, begin, speech[begin:end], end - start)
        size = stream.next_size(window, final=final)
        assert size.units == pytest.approx(len(window.samples) / RATE_HZ) and size.variant in ("recheck", "")
        return await settled(stream.decode(window, final=final, ctx=context(turn)), asr.placement)

    stable, window_start = "", 0
    for end in range(RATE_HZ // 2, len(speech), RATE_HZ // 2):
        partial = await decode(1, 0, end, final=False)
        assert not partial.final
        assert partial.stable.startswith(stable), "a stable prefix only grows"
        assert window_start <= stream.window_start <= end
        stable, window_start = partial.stable, stream.window_start
    final = await decode(1, 0, len(speech), final=True)
    assert final.final and final.tentative == ""
    again = await decode(1, 0, len(speech), final=True)
    assert again.final
    silence = Window(2, len(speech), np.zeros(RATE_HZ, np.float32), 0)
    fresh = await settled(stream.decode(silence, final=False, ctx=context(2)), asr.placement)
    assert not (stable and fresh.stable.startswith(stable)), "a new utterance forgets the last"
    stream.close()
    return str(final.text)


def prompt(text: str = "Say hello.", max_tokens: int = 24) -> Prompt:
    return Prompt((ChatMessage("system", "Be brief."), ChatMessage("user", text)), max_tokens)


async def _steps(generation: Any, placement: str) -> list[LlmStep]:
    steps: list[LlmStep] = []
    while not steps or steps[-1].finish is None:
        assert len(steps) < MAX_STEPS, "a generation that does not end"
        size = generation.next_size()
        assert size.variant in ("prefill", "decode") and size.units > 0 and size.context >= 0
        steps.append(await settled(generation.step(), placement))
        assert not steps[-1].cut
        if size.variant == "decode":
            assert steps[-1].tokens <= size.units and not steps[-1].prefilled
        elif len(steps) > 1:  # the first may be an estimate
            assert steps[-1].prefilled <= size.units
    return steps


async def check_llm(llm: Llm) -> str:
    """Bounded steps to a finish; at most so many tokens; slots leased and given back. The text."""
    assert llm.name and llm.placement in ("thread", "loop") and llm.slots >= 1
    slots = [llm.open(f"s{number}") for number in range(llm.slots)]
    with pytest.raises(EngineBusy):
        llm.open("one too many")
    slot = slots[0]
    steps = await _steps(slot.generate(prompt(), context()), llm.placement)
    assert sum(step.tokens for step in steps) <= 24
    assert all(step.tokens >= 0 and step.prefilled >= 0 for step in steps)
    assert all("�" not in step.text for step in steps), "half a character"
    short = await _steps(slot.generate(prompt(max_tokens=1), context(2, 2)), llm.placement)
    assert sum(step.tokens for step in short) <= 1
    left = slot.generate(prompt(), context(3, 3))
    await settled(left.step(), llm.placement)
    left.cancel()
    left.cancel()
    unbegun = slot.generate(prompt(), context(4, 4))
    unbegun.cancel()
    whole = await _steps(slot.generate(prompt("And now?"), context(5, 5)), llm.placement)
    assert whole[-1].finish is not None
    for one in slots:
        one.close()
        one.close()
    llm.open("again").close()
    await llm.aclose()
    return "".join(step.text for step in steps)


async def _spoken(synthesis: Any, placement: str) -> list[TtsStep]:
    steps: list[TtsStep] = []
    while not steps or not steps[-1].last:
        assert len(steps) < MAX_STEPS, "a clause that does not end"
        size = synthesis.next_size()
        assert size.units >= 0 and (size.variant == "first" or steps) and size.variant in ("first", "later")
        steps.append(await settled(synthesis.step(), placement))
    return steps


async def check_tts(tts: Tts, texts: Iterable[str] = ("Hello there.", "One, two, three.")) -> Samples:
    """Bounded pieces of float32 within full scale, to an end; silence for what cannot be said. All samples."""
    assert tts.name and tts.placement in ("thread", "loop")
    assert 8_000 <= tts.sample_rate_hz <= 48_000
    everything: list[Samples] = []
    for first, text in enumerate(texts):
        steps = await _spoken(tts.synthesize(text, context(), first=first == 0), tts.placement)
        for step in steps:
            assert step.samples.dtype == np.float32 and step.samples.ndim == 1
            assert np.isfinite(step.samples).all() and np.abs(step.samples).max(initial=0.0) <= 1.0
        whole = np.concatenate([step.samples for step in steps])
        assert 0.1 < len(whole) / tts.sample_rate_hz < 10.0
        everything.append(whole)
    for text in ("", " ", "...", "\N{SLIGHTLY SMILING FACE}"):
        await _spoken(tts.synthesize(text, context(), first=False), tts.placement)
    left = tts.synthesize("This clause is let go of.", context(), first=True)
    assert left.next_size() == StepSize("first", len("This clause is let go of."))
    left.cancel()
    begun = tts.synthesize("This one too, after its first piece.", context(), first=True)
    await settled(begun.step(), tts.placement)
    begun.cancel()
    begun.cancel()
    return np.concatenate(everything)


def ran(check: Any) -> Any:
    """The result of a check, on a loop of its own."""
    return asyncio.run(check)
