"""What of a conversation a model of limited context is shown, so that every turn can be answered in time.

In this order, and each only as far as it must:

1. the oldest turns go, and what is kept begins with a user message: where those before the newest message take
   more than `memory`, because each step takes longer the more it looks back on, or where the prompt does not fit;
2. where the system messages and the newest message alone do not fit, the system messages keep their beginning,
   three eighths of the context at most;
3. the newest message keeps its end, which is where a question usually stands.

Whatever is computed for one prompt is reused for the next as far as both begin alike, so every cut stays where it
is while the conversation, or a message that is still being spoken, grows: turns go by half at once, the beginning
of a message in steps, and the system messages are cut to the same length for every prompt. The newest message does
not count for `memory`, so that this cut comes between two turns, where there is time to read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from voicepipe.engines.base import ChatMessage, Prompt
from voicepipe.errors import EngineError

_BROKEN = "\N{REPLACEMENT CHARACTER}"
"""What a cut inside a character leaves of it."""

_MESSAGE_TOKENS = 8
"""What a template adds to each message: its role and the marks around it. 4 to 6 in common ones."""


class Tokens(Protocol):
    """A model's tokenizer and chat template."""

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The whole prompt, up to where the assistant begins to speak."""
        ...

    def split(self, text: str) -> list[int]:
        """Tokens of plain text, without any markup."""
        ...

    def text(self, tokens: Sequence[int]) -> str: ...


class Fitter:
    """For one conversation. `context` is in tokens, the reply's included; `memory` as well, without the system
    messages: by default all that fits."""

    def __init__(self, tokens: Tokens, context: int, memory: int | None = None) -> None:
        self._tokens = tokens
        self._context = context
        self._memory = context if memory is None else memory
        self._size = lru_cache(2 * context)(lambda text: len(tokens.split(text)))
        self._system_max = 3 * context // 8
        self._step = max(1, context // 16)
        self._anchor: tuple[int, ChatMessage] | None = None
        """The turn that the last cut left first, and its index among the turns."""

    def fit(self, prompt: Prompt) -> list[int]:
        """Tokens of the prompt, with room for the reply or, where that is long, for half a context of it.

        Raises EngineError where the template's own tokens fill the context.
        """
        room = self._context - min(prompt.max_tokens, self._context // 2)
        count = next((i for i, m in enumerate(prompt.messages) if m.role != "system"), len(prompt.messages))
        system, turns = prompt.messages[:count], prompt.messages[count:]
        start = self._forget(turns, self._first(turns))
        tokens = self._tokens.encode(system + turns[start:])
        if len(tokens) <= room:
            return tokens
        if len(self._tokens.encode(system + turns[-1:])) > room:
            system = self._cut_system(system)
            tokens = self._tokens.encode(system + turns[start:])
        while len(tokens) > room and start < len(turns) - 1:
            start = self._cut_turns(turns, start, (len(tokens) - room // 2) / len(tokens))
            self._anchor = (start, turns[start])
            tokens = self._tokens.encode(system + turns[start:])
        if len(tokens) > room and turns:
            tokens = self._cut_newest(system, turns[-1], len(tokens), room)
        if len(tokens) > room:
            raise EngineError(
                f"the model's chat template alone exceeds the context of {self._context} tokens;"
                " raise engines.context_tokens"
            )
        return tokens

    def _first(self, turns: Sequence[ChatMessage]) -> int:
        """Where the last cut was, as long as this is the same conversation."""
        if self._anchor is None:
            return 0
        index, message = self._anchor
        return index if index < len(turns) and turns[index] == message else 0

    def _forget(self, turns: Sequence[ChatMessage], start: int) -> int:
        sizes = [self._size(turn.content) + _MESSAGE_TOKENS for turn in turns[:-1]]
        past = sum(sizes[start:])
        if past <= self._memory:
            return start
        while start < len(sizes) and (past > self._memory // 2 or turns[start].role != "user"):
            past -= sizes[start]
            start += 1
        self._anchor = (start, turns[start])
        return start

    def _cut_turns(self, turns: Sequence[ChatMessage], start: int, share: float) -> int:
        """Index of the first turn to keep so that `share` of the prompt goes, if there is as much."""
        # Shares, because a message costs more than its content: the template adds its own tokens.
        last = len(turns) - 1
        sizes = [self._size(turn.content) for turn in turns]
        excess = share * sum(sizes[start:])
        while start < last and (excess > 0 or turns[start].role != "user"):
            excess -= sizes[start]
            start += 1
        return start

    def _cut_system(self, system: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
        """The beginning, without regard to what else the prompt holds."""
        kept: list[ChatMessage] = []
        left = self._system_max
        for message in system:
            left -= _MESSAGE_TOKENS
            if left <= 0:
                break
            tokens = self._tokens.split(message.content)
            if len(tokens) > left:
                text = self._tokens.text(tokens[:left]).rstrip(_BROKEN)
                kept.append(replace(message, content=text))
                break
            kept.append(message)
            left -= len(tokens)
        return tuple(kept)

    def _cut_newest(self, system: tuple[ChatMessage, ...], newest: ChatMessage, size: int, room: int) -> list[int]:
        """The prompt with the end of its newest message. `size` is what it has with all of it."""
        kept = self._tokens.split(newest.content)
        prompt: list[int] = []
        while size > room and kept:
            excess = size - room
            drop = -(-excess // self._step) * self._step
            kept = kept[drop if drop < len(kept) else excess :]
            text = self._tokens.text(kept).lstrip(_BROKEN) if kept else ""
            prompt = self._tokens.encode((*system, replace(newest, content=text)))
            size = len(prompt)
        return prompt
