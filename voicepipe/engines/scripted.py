"""Engines that need no model: fixed words, a tone for a voice, and service times that you state.

They occupy the device like real ones, a chunk at a time: by waiting ("sleep") or by burning the CPU ("spin").
With them the whole pipeline runs anywhere, deterministically, under real or virtual time.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Literal

import numpy as np

from voicepipe.audio import dbfs
from voicepipe.config import ScriptedConfig
from voicepipe.engines.base import (
    Context,
    LlmStep,
    MaybeAwaitable,
    Placement,
    Prompt,
    Samples,
    StepSize,
    StepTogether,
    T,
    Text,
    TextPhase,
    TextRequest,
    TextStep,
    ToolUse,
    Transcript,
    TtsStep,
    Window,
    whole_window,
)
from voicepipe.errors import EngineBusy, EngineUnavailable, PromptTooLong

RATE_HZ = 16_000
VAD_THRESHOLD_DBFS = -40.0
TONE_HZ = 440.0
SECONDS_PER_WORD = 0.3
"""Length of the spoken tone: about the pace of speech."""


async def _sleep_then(service_s: float, value: T) -> T:
    await asyncio.sleep(service_s)
    return value


class _Occupier:
    """Returns a value after its service time, in the way that the config asks for."""

    def __init__(self, occupy: str) -> None:
        self.placement: Placement = "loop" if occupy == "sleep" else "thread"

    def after(self, service_ms: float, value: T) -> MaybeAwaitable[T]:
        if self.placement == "loop":
            return _sleep_then(service_ms / 1000, value)
        until = time.perf_counter() + service_ms / 1000
        while time.perf_counter() < until:
            pass
        return value


class ScriptedVad:
    """Speech is what is louder than -40 dBFS."""

    placement: Placement = "thread"
    name = "scripted-energy"
    lag_s = 0.016
    """Half a frame: the frame in which speech ends is still loud, in the mean by its first half."""

    def open(self) -> ScriptedVadStream:
        return ScriptedVadStream()


class ScriptedVadStream:
    frame_samples = 512

    def probability(self, frame: Samples) -> float:
        return 1.0 if dbfs(frame) > VAD_THRESHOLD_DBFS else 0.0


class ScriptedAsr:
    """Hears the n-th scripted text in the n-th utterance of a session, a word per 0.3 s in its partials."""

    name = "scripted"

    def __init__(self, config: ScriptedConfig) -> None:
        self._config = config
        self._occupier = _Occupier(config.occupy)
        self.placement = self._occupier.placement

    def open(self) -> ScriptedAsrStream:
        return ScriptedAsrStream(self._config, self._occupier)


class ScriptedAsrStream:
    def __init__(self, config: ScriptedConfig, occupier: _Occupier) -> None:
        self._config = config
        self._occupier = occupier
        self._utterance = 0
        self._heard = -1
        self.window_start = 0

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        return whole_window(window)

    def decode(self, window: Window, *, final: bool, ctx: Context) -> MaybeAwaitable[Transcript]:
        if window.utterance != self._utterance:
            self._utterance, self._heard = window.utterance, self._heard + 1
        texts = self._config.transcripts
        text = texts[self._heard % len(texts)] if texts else ""
        seconds = len(window.samples) / RATE_HZ
        if final:
            transcript = Transcript(text, "", final=True, encoded_s=seconds)
        else:
            words = text.split()[: int(seconds / SECONDS_PER_WORD)]
            transcript = Transcript(" ".join(words[:-1]), " ".join(words[-1:]), final=False, encoded_s=seconds)
        return self._occupier.after(self._config.asr_ms, transcript)

    def close(self) -> None:
        """Nothing is held."""


class ScriptedTurnModel:
    """Gives the n-th scripted score in the n-th turn of a session, whatever the sound."""

    name = "scripted"

    def __init__(self, config: ScriptedConfig) -> None:
        self._config = config
        self._occupier = _Occupier(config.occupy)
        self.placement = self._occupier.placement

    def completeness(self, audio: Samples, ctx: Context) -> MaybeAwaitable[float]:
        scores = self._config.completeness
        return self._occupier.after(self._config.turn_model_ms, scores[(ctx.turn - 1) % len(scores)])


class ScriptedLlm:
    """Says the scripted reply, a word at a time."""

    name = "scripted"
    keeps_prefix = True
    has_small = False
    calls_tools = True

    def __init__(self, config: ScriptedConfig, slots: int) -> None:
        self.step_together: StepTogether | None = self._step_together if config.llm_batch > 1 else None
        self._config = config
        self._occupier = _Occupier(config.occupy)
        self.placement = self._occupier.placement
        self.slots = slots
        self._leased = 0
        self._called = 0
        self._generations = 0

    def open(self, session: str) -> ScriptedLlmSlot:
        if self._leased == self.slots:
            raise EngineBusy(f"all {self.slots} reply slots are taken")
        self._leased += 1
        return ScriptedLlmSlot(self)

    def give_back(self) -> None:
        self._leased -= 1

    @property
    def leased(self) -> int:
        return self._leased

    def generation(self, prompt: Prompt) -> ScriptedGeneration:
        self._generations += 1
        every = self._config.llm_fails_every
        fails = every > 0 and self._generations % every == 0
        return ScriptedGeneration(self._config, self._occupier, prompt.max_tokens, self._calls(prompt), fails=fails)

    def _step_together(self, generations: Sequence[ScriptedGeneration]) -> MaybeAwaitable[Sequence[LlmStep]]:
        """The first takes as long as alone."""
        more_ms = self._config.llm_more_ms * (len(generations) - 1)
        steps = tuple(generation.advance() for generation in generations)
        return self._occupier.after(self._config.llm_token_ms + more_ms, steps)

    def _calls(self, prompt: Prompt) -> tuple[ToolUse, ...]:
        knows = bool(prompt.messages) and prompt.messages[-1].role == "tool"
        if prompt.tool_choice == "none" or knows:
            return ()
        offered = [tool.name for tool in prompt.tools if prompt.tool_choice in ("auto", "required", tool.name)]
        scripted = (call.partition(" ") for call in self._config.calls)
        call = next(((name, arguments) for name, _, arguments in scripted if name in offered), None)
        if call is None:
            return ()
        self._called += 1
        return (ToolUse(f"call_{self._called}", *call),)

    async def aclose(self) -> None:
        """Nothing is held."""


class ScriptedLlmSlot:
    def __init__(self, llm: ScriptedLlm) -> None:
        self._llm: ScriptedLlm | None = llm

    def generate(self, prompt: Prompt, ctx: Context) -> ScriptedGeneration:
        assert self._llm is not None
        return self._llm.generation(prompt)

    def close(self) -> None:
        if self._llm is not None:
            self._llm.give_back()
            self._llm = None


class ScriptedGeneration:
    """First step: the prefill. Each later one: a word. Or the second one calls tools, and is the last."""

    def __init__(
        self,
        config: ScriptedConfig,
        occupier: _Occupier,
        max_tokens: int,
        calls: tuple[ToolUse, ...] = (),
        *,
        fails: bool = False,
    ) -> None:
        self._calls = calls
        self._fails = fails
        self._config = config
        self._occupier = occupier
        self._tokens = re.findall(r"\S+\s*", config.reply)
        self._max_tokens = max_tokens
        self._position = -1

    def next_size(self) -> StepSize:
        if self._position < 0:
            return StepSize("prefill", 1)
        return StepSize("decode", 1, self._position + 1, self._config.llm_batch)

    def step(self) -> MaybeAwaitable[LlmStep]:
        if self._fails:
            raise EngineUnavailable("this reply is scripted to fail")
        reads = self._position < 0
        return self._occupier.after(
            self._config.llm_prefill_ms if reads else self._config.llm_token_ms, self.advance()
        )

    def advance(self) -> LlmStep:
        """What the next step brings."""
        self._position += 1
        if self._position == 0:
            return LlmStep("", 0, prefilled=1, finish=None if self._tokens or self._calls else "stop")
        if self._calls:
            return LlmStep("", 1, finish="stop", calls=self._calls)
        text = self._tokens[self._position - 1]
        finish = None
        if self._position == len(self._tokens):
            finish = "stop"
        elif self._position == self._max_tokens:
            finish = "length"
        return LlmStep(text, 1, finish=finish)  # type: ignore[arg-type]

    def cancel(self) -> None:
        """Nothing is held."""


class ScriptedTexts:
    """Says the scripted reply, a word a token, round and round until `max_tokens`."""

    name = "scripted"
    context_tokens = 2048

    def __init__(self, config: ScriptedConfig, slots: int) -> None:
        self._config = config
        self._occupier = _Occupier(config.occupy)
        self.placement = self._occupier.placement
        self.slots = slots
        self.leased = 0

    def open(self, request: TextRequest) -> ScriptedText:
        if self.leased == self.slots:
            raise EngineBusy(f"all {self.slots} slots for texts are taken")
        self.leased += 1
        return ScriptedText(self, re.findall(r"\S+\s*", self._config.reply), request)

    def step(self, texts: Sequence[Text], units: int) -> MaybeAwaitable[tuple[TextStep, ...]]:
        """Texts that are written together take as long as one."""
        own = [text for text in texts if isinstance(text, ScriptedText)]
        if any(text.phase != "decode" for text in own):
            (text,) = own
            service_ms = 0.0 if text.phase == "split" else self._config.llm_prefill_ms
            return self._occupier.after(service_ms, (text.begin(units),))
        made = max(min(units, text.left) for text in own)
        return self._occupier.after(self._config.llm_token_ms * made, tuple(text.write(units) for text in own))


class ScriptedText:
    """A word of the prompt is a token."""

    def __init__(self, pool: ScriptedTexts, words: list[str], request: TextRequest) -> None:
        self.phase: TextPhase = "split"
        self.prompt_tokens = 0
        self.left = request.max_tokens
        self._pool: ScriptedTexts | None = pool
        self._words = words
        self._request = request
        self._read = self._made = 0

    def next_size(self) -> StepSize:
        match self.phase:
            case "split":
                return StepSize("split", self._request.characters)
            case "prefill":
                return StepSize("prefill", self.prompt_tokens - self._read, self._read)
            case "decode":
                return StepSize("decode", self.left, self.prompt_tokens + self._made)

    def begin(self, units: int) -> TextStep:
        if self.phase == "split":
            self.prompt_tokens = max(1, sum(len(m.content.split()) for m in self._request.messages))
            if self.prompt_tokens >= ScriptedTexts.context_tokens:
                raise PromptTooLong("the messages have too many tokens", field="messages")
            self.phase = "prefill"
            return TextStep()
        prefilled = min(units, self.prompt_tokens - self._read)
        self._read += prefilled
        if self._read == self.prompt_tokens:
            self.phase = "decode"
        return TextStep(prefilled=prefilled)

    def write(self, units: int) -> TextStep:
        tokens = min(units, self.left)
        words = [self._words[(self._made + i) % len(self._words)] for i in range(tokens)] if self._words else []
        # A reply's last word has no space behind it, and another one follows it here.
        text = "".join(word if word[-1].isspace() else f"{word} " for word in words)
        self._made += tokens
        self.left -= tokens
        finish: Literal["length"] | None = None if self.left else "length"
        return TextStep(text.rstrip() if finish else text, tokens, finish=finish)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.leased -= 1
            self._pool = None


class ScriptedTts:
    """A tone, 0.3 s to a word."""

    name = "scripted"
    sample_rate_hz = 24_000

    def __init__(self, config: ScriptedConfig) -> None:
        self._config = config
        self._occupier = _Occupier(config.occupy)
        self.placement = self._occupier.placement

    def synthesize(self, text: str, ctx: Context, *, first: bool) -> ScriptedSynthesis:
        samples = round(len(text.split()) * SECONDS_PER_WORD * self.sample_rate_hz)
        time_s = np.arange(samples, dtype=np.float32) / self.sample_rate_hz
        tone = (0.2 * np.sin(2 * np.pi * TONE_HZ * time_s)).astype(np.float32)
        piece = max(1, round(self._config.tts_piece_ms * self.sample_rate_hz / 1000))
        return ScriptedSynthesis(tone, piece, self._config.tts_ms, self._occupier, len(text))


class ScriptedSynthesis:
    def __init__(self, tone: Samples, piece: int, service_ms: float, occupier: _Occupier, characters: int) -> None:
        self._characters = characters
        self._tone = tone
        self._piece = piece
        self._service_ms = service_ms
        self._occupier = occupier
        self._position = 0

    def next_size(self) -> StepSize:
        if self._position == 0:
            return StepSize("first", self._characters)
        return StepSize("later", max(0, min(self._piece, len(self._tone) - self._position)))

    def step(self) -> MaybeAwaitable[TtsStep]:
        end = self._position + self._piece
        step = TtsStep(self._tone[self._position : end], end >= len(self._tone))
        self._position = end
        return self._occupier.after(self._service_ms, step)

    def cancel(self) -> None:
        """Nothing is held."""
