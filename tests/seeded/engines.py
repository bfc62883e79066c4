"""Engines whose every call draws how long it takes and what goes wrong with it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.seeded.loop import BEGIN_S, SeededLoop
from voicepipe.config import ScriptedConfig
from voicepipe.engines.base import Engines, Prompt
from voicepipe.engines.scripted import (
    ScriptedAsr,
    ScriptedGeneration,
    ScriptedLlm,
    ScriptedTexts,
    ScriptedTts,
    ScriptedTurnModel,
    ScriptedVad,
)
from voicepipe.errors import EngineError, EngineThrottled, EngineTimeout, EngineUnavailable

CANARY = "zanzibar"
"""In all that is said, by whomever, and in what engines say of it when they fail: no log may hold it."""
REPLIES = ("Yes.", "Zanzibar is far. Go home.", "One two three four five six zanzibar. Eight nine ten.", "")
HEARD = ("Where is zanzibar?", "zanzibar and", "", "Zanzibar.", "I would like zanzibar and cake.")


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances per call."""

    slow: float = 0.0
    """It takes up to two seconds longer."""
    hang: float = 0.0
    """It takes 6 to 60 s longer, or never ends, and half of those that are awaited swallow their cancellation."""
    crash: float = 0.0
    outage: float = 0.0
    """Chance per engine that there is a time in which all calls fail."""

    def per(self, calls: int) -> Weather:
        """As bad in so many calls."""
        return Weather(self.slow / calls, self.hang / calls, self.crash / calls, self.outage)


CALM, CHANGEABLE, STORMY = Weather(), Weather(0.05, 0.002, 0.01, 0.1), Weather(0.2, 0.03, 0.08, 0.3)


class Chance:
    """What becomes of the calls of one engine."""

    def __init__(self, name: str, draw: random.Random, loop: SeededLoop, weather: Weather, mean_s: float) -> None:
        self._name = name
        self._draw = draw
        self._loop = loop
        self._weather = weather
        self._mean_s = mean_s
        self.blocks = draw.random() < 0.5
        self._outage = (draw.uniform(0.0, 8.0), draw.uniform(1.0, 10.0)) if draw.random() < weather.outage else None
        """When all calls fail: from when on, and for how long. Seconds."""

    def around(self, call: Callable[[], Any]) -> Any:
        takes_s, fault = self._service_s(), self._fault()
        if self.blocks:
            self._loop.burn(takes_s)
            if fault is not None:
                raise fault
            return call()
        return self._awaited(call, takes_s, fault)

    async def _awaited(self, call: Callable[[], Any], takes_s: float, fault: BaseException | None) -> Any:
        await self._sleep(takes_s, stubborn=takes_s > 5.0 and self._draw.random() < 0.5)
        if fault is not None:
            raise fault
        value = call()
        return await value if isinstance(value, Awaitable) else value

    async def _sleep(self, seconds: float, *, stubborn: bool) -> None:
        if not stubborn:
            await asyncio.sleep(seconds)
            return
        until = self._loop.time() + seconds
        while self._loop.time() < until:
            try:
                await asyncio.sleep(until - self._loop.time())
            except asyncio.CancelledError:
                self._note("swallows its cancellation")

    def _service_s(self) -> float:
        draw, weather = self._draw, self._weather
        takes_s = draw.uniform(0.2, 1.8) * self._mean_s
        if draw.random() < weather.slow:
            takes_s += draw.uniform(0.05, 2.0)
        if draw.random() < weather.hang:
            takes_s += float("inf") if self.blocks and draw.random() < 0.1 else draw.uniform(6.0, 60.0)
            self._note(f"hangs for {takes_s:.3f} s")
        return takes_s

    def _fault(self) -> BaseException | None:
        draw = self._draw
        if self._is_out():
            return EngineUnavailable("an outage")
        if draw.random() >= self._weather.crash:
            return None
        faults: list[BaseException] = [
            EngineError("a fault"),
            EngineUnavailable("nobody answers"),
            EngineThrottled("too many"),
            EngineTimeout("too late"),
            MemoryError(),
            ValueError(f"no {CANARY}"),
            SystemExit(1),
        ]
        faults.append(StopIteration() if self.blocks else asyncio.CancelledError())
        fault = draw.choice(faults)
        self._note(f"fails: {type(fault).__name__}")
        return fault

    def _is_out(self) -> bool:
        if self._outage is None:
            return False
        begin, length_s = self._outage
        return begin <= self._loop.time() - BEGIN_S < begin + length_s

    def _note(self, what: str) -> None:
        self._loop.trace.note(self._loop.time(), f"{self._name} {what}")


class _Wrapped:
    """`inner`, whose method `chunk` meets chance."""

    def __init__(self, inner: Any, chunk: str, chance: Chance) -> None:
        self._inner = inner
        self._chunk = chunk
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == self._chunk:
            return lambda *args, **more: self._chance.around(lambda: value(*args, **more))
        return value


class _Vad(ScriptedVad):
    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self.placement = "thread" if chance.blocks else "loop"

    def open(self) -> Any:
        return _Wrapped(super().open(), "probability", self._chance)


class _Asr(ScriptedAsr):
    def __init__(self, config: ScriptedConfig, chance: Chance) -> None:
        super().__init__(config)
        self._chance = chance

    def open(self) -> Any:
        return _Wrapped(super().open(), "decode", self._chance)


class _Llm(ScriptedLlm):
    def __init__(self, config: ScriptedConfig, slots: int, chance: Chance) -> None:
        super().__init__(config, slots)
        self._chance = chance
        together = self.step_together
        if together is not None:
            self.step_together = lambda generations: chance.around(lambda: together(_bare(generations)))

    def generation(self, prompt: Prompt) -> Any:
        inner: ScriptedGeneration = super().generation(prompt)
        return _Wrapped(inner, "step", self._chance)


def _bare(generations: Any) -> list[Any]:
    return [one._inner if isinstance(one, _Wrapped) else one for one in generations]


class _Tts(ScriptedTts):
    def __init__(self, config: ScriptedConfig, chance: Chance) -> None:
        super().__init__(config)
        self._chance = chance

    def synthesize(self, *args: Any, **more: Any) -> Any:
        return _Wrapped(super().synthesize(*args, **more), "step", self._chance)


class _TurnModel(ScriptedTurnModel):
    def __init__(self, config: ScriptedConfig, chance: Chance) -> None:
        super().__init__(config)
        self._chance = chance

    def completeness(self, *args: Any, **more: Any) -> Any:
        return self._chance.around(lambda: super(_TurnModel, self).completeness(*args, **more))


class _Texts(ScriptedTexts):
    def __init__(self, config: ScriptedConfig, slots: int, chance: Chance) -> None:
        super().__init__(config, slots)
        self._chance = chance

    def step(self, *args: Any, **more: Any) -> Any:
        return self._chance.around(lambda: super(_Texts, self).step(*args, **more))


def seeded_engines(seed: object, loop: SeededLoop, weather: Weather, slots: int) -> Engines:
    """Each engine blocks a thread or is awaited, as it is drawn."""
    draw = random.Random(f"{seed}/engines")

    def chance(name: str, mean_s: float) -> tuple[Chance, ScriptedConfig]:
        one = Chance(name, draw, loop, weather, mean_s)
        config = ScriptedConfig(
            transcripts=tuple(draw.sample(HEARD, 3)),
            reply=draw.choice(REPLIES),
            asr_ms=0.0,
            llm_prefill_ms=0.0,
            llm_token_ms=0.0,
            tts_ms=0.0,
            turn_model_ms=0.0,
            llm_batch=draw.choice((1, 4)),
            occupy="spin" if one.blocks else "sleep",
        )
        return one, config

    vad = Chance("vad", draw, loop, weather.per(50), 0.0001)  # a call is a frame of 32 ms
    asr, asr_config = chance("asr", 0.02)
    llm, llm_config = chance("llm", 0.01)
    tts, tts_config = chance("tts", 0.02)
    second, second_config = chance("second", 0.05)
    model, model_config = chance("turn-model", 0.05)
    texts, texts_config = chance("texts", 0.01)
    return Engines(
        _Vad(vad),
        _Asr(asr_config, asr),
        _Llm(llm_config, slots, llm),
        _Tts(tts_config, tts),
        _Asr(second_config, second) if draw.random() < 0.3 else None,
        _TurnModel(model_config, model) if draw.random() < 0.3 else None,
        _Texts(texts_config, 1, texts),
    )
