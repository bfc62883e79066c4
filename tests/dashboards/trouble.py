"""Engines with which something goes wrong, once they are told to: until then they warm up like any others."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable
from typing import Any

from voicepipe.config import ScriptedConfig
from voicepipe.engines.base import Context, LlmStep, MaybeAwaitable, Prompt, Samples, Transcript, Window
from voicepipe.engines.scripted import (
    ScriptedAsr,
    ScriptedAsrStream,
    ScriptedGeneration,
    ScriptedLlm,
    ScriptedLlmSlot,
    ScriptedVad,
    ScriptedVadStream,
)
from voicepipe.errors import EngineError


class BrokenLlm(ScriptedLlm):
    """Fails."""

    broken = False

    def generation(self, prompt: Prompt) -> ScriptedGeneration:
        make = BrokenGeneration if self.broken else ScriptedGeneration
        return make(self._config, self._occupier, prompt.max_tokens)


class BrokenGeneration(ScriptedGeneration):
    def step(self) -> MaybeAwaitable[LlmStep]:
        raise EngineError("the model has gone away")


class BuggyLlm(ScriptedLlm):
    """Has a fault that nobody has foreseen."""

    broken = False

    def open(self, session: str) -> ScriptedLlmSlot:
        if self.broken:
            raise RuntimeError("a fault of ours")
        return super().open(session)


class HangingLlm(ScriptedLlm):
    """Takes for ever."""

    broken = False

    def __init__(self, config: ScriptedConfig, slots: int) -> None:
        super().__init__(config, slots)
        self.go_on = asyncio.Event()

    def generation(self, prompt: Prompt) -> ScriptedGeneration:
        made = super().generation(prompt)
        return HangingGeneration(made, self.go_on) if self.broken else made


class HangingGeneration(ScriptedGeneration):
    def __init__(self, made: ScriptedGeneration, go_on: asyncio.Event) -> None:
        self.__dict__.update(made.__dict__)
        self._go_on = go_on

    def step(self) -> MaybeAwaitable[LlmStep]:
        return self._late()

    async def _late(self) -> LlmStep:
        await self._go_on.wait()
        return LlmStep("", 0, finish="stop")


class SlowVad(ScriptedVad):
    """Listens more slowly than people speak."""

    broken = False

    def open(self) -> ScriptedVadStream:
        return SlowVadStream(self)


class SlowVadStream(ScriptedVadStream):
    FRAME_S = 0.08

    def __init__(self, vad: SlowVad) -> None:
        self._vad = vad

    def probability(self, frame: Samples) -> float:
        if self._vad.broken:
            time.sleep(self.FRAME_S)
        return super().probability(frame)


class FickleAsr(ScriptedAsr):
    """Hears other words each time that it listens."""

    broken = False

    def open(self) -> ScriptedAsrStream:
        return FickleStream(self, self._config, self._occupier)


class FickleStream(ScriptedAsrStream):
    def __init__(self, asr: FickleAsr, *rest: Any) -> None:
        super().__init__(*rest)
        self._asr = asr
        self._times = 0

    def decode(self, window: Window, *, final: bool, ctx: Context) -> MaybeAwaitable[Transcript]:
        made = super().decode(window, final=final, ctx=ctx)
        assert not isinstance(made, Transcript)
        return self._other(made) if self._asr.broken and final else made

    async def _other(self, made: Awaitable[Transcript]) -> Transcript:
        self._times += 1
        return dataclasses.replace(await made, stable=f"What is {'x' * self._times}?")
