"""Tools for a model that knows none: it is told of them in its instructions, and calls one by writing JSON.

    {"tool": "weather", "arguments": {"place": "Oslo"}}

A reply that begins with a brace (or a code fence) is taken for a call and never spoken: it is held until the object
is complete, and then is the whole reply. Any other reply passes as it is, from its first word on. What a model
writes there is a guess like all that it writes, and is checked against the schema by others.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from itertools import count
from typing import Final

from voicepipe.engines.base import (
    ChatMessage,
    Context,
    Generation,
    Llm,
    LlmSlot,
    LlmStep,
    MaybeAwaitable,
    Prompt,
    StepSize,
    ToolOffer,
    ToolUse,
)
from voicepipe.errors import BadToolCall

MAX_CALL_CHARACTERS: Final = 16 * 1024
_FENCE: Final = "```"
_HEAD: Final = (
    "You can use tools. To use one, answer with nothing but one line of JSON of this form:\n"
    '{"tool": NAME, "arguments": OBJECT}\n'
    "Use a tool only where it helps to answer. The tools are:"
)


class JsonTools:
    """`inner` with tools. What it is otherwise, it is as `inner`."""

    calls_tools = True

    def __init__(self, inner: Llm) -> None:
        self._inner = inner
        self._numbers = count(1)
        self.placement = inner.placement
        self.name = inner.name
        self.slots = inner.slots
        self.keeps_prefix = inner.keeps_prefix
        self.has_small = inner.has_small
        self.step_together = inner.step_together

    def open(self, session: str) -> LlmSlot:
        """Raises EngineBusy."""
        return _Slot(self._inner.open(session), self._numbers)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Slot:
    def __init__(self, inner: LlmSlot, numbers: Iterator[int]) -> None:
        self._inner = inner
        self._numbers = numbers

    def generate(self, prompt: Prompt, ctx: Context) -> Generation:
        generation = self._inner.generate(as_text(prompt), ctx)
        offered = prompt.tools and prompt.tool_choice != "none"
        return _Generation(generation, self._numbers) if offered else generation

    def close(self) -> None:
        self._inner.close()


class _Generation:
    """Holds what may be a call; `_speaks` is None while that is not known."""

    def __init__(self, inner: Generation, numbers: Iterator[int]) -> None:
        self._inner = inner
        self._numbers = numbers
        self._speaks: bool | None = None
        self._held = ""

    def next_size(self) -> StepSize:
        """By itself: what it writes is looked into step by step."""
        return replace(self._inner.next_size(), batch=1)

    def step(self) -> MaybeAwaitable[LlmStep]:
        step = self._inner.step()
        return self._waited(step) if inspect.isawaitable(step) else self._read(step)

    def cancel(self) -> None:
        self._inner.cancel()

    async def _waited(self, step: Awaitable[LlmStep]) -> LlmStep:
        return self._read(await step)

    def _read(self, step: LlmStep) -> LlmStep:
        if self._speaks or step.cut:
            return step
        self._held += step.text
        begin = self._held.lstrip()
        if begin and not _FENCE.startswith(begin[:3]) and begin[0] != "{":
            self._speaks = True
            return replace(step, text=self._held)
        if len(self._held) > MAX_CALL_CHARACTERS:
            raise BadToolCall(f"the model wrote a call of over {MAX_CALL_CHARACTERS} characters")
        call = _call_in(begin)
        if call is not None:
            if step.finish is None:
                self._inner.cancel()
            name, arguments = call
            use = ToolUse(f"call_{next(self._numbers)}", name, arguments)
            return replace(step, text="", finish="stop", calls=(use,))
        if step.finish == "stop" and begin:
            raise BadToolCall("the model wrote what begins like the call of a tool, and is none")
        return replace(step, text="")


def as_text(prompt: Prompt) -> Prompt:
    """The prompt for a model that knows messages alone."""
    messages = tuple(map(_plain, prompt.messages))
    if prompt.tools and prompt.tool_choice != "none":
        messages = _told(messages, prompt.tools, prompt.tool_choice)
    return replace(prompt, messages=messages, tools=(), tool_choice="auto")


def _told(messages: tuple[ChatMessage, ...], tools: tuple[ToolOffer, ...], choice: str) -> tuple[ChatMessage, ...]:
    """Behind the instructions, which stay the prompt's beginning."""
    lines = [f"- {tool.name}: {tool.description} Arguments: {tool.parameters}" for tool in tools]
    if choice == "required":
        lines.append("Use one of them now.")
    elif choice != "auto":
        lines.append(f"Use {choice} now.")
    text = "\n".join([_HEAD, *lines])
    if messages and messages[0].role == "system":
        first, *rest = messages
        return (replace(first, content=f"{first.content}\n\n{text}"), *rest)
    return (ChatMessage("system", text), *messages)


def _plain(message: ChatMessage) -> ChatMessage:
    """Calls as the model writes them; what came of one, as if the user had said it."""
    if message.calls:
        calls = [f'{{"tool": {json.dumps(use.name)}, "arguments": {use.arguments}}}' for use in message.calls]
        return ChatMessage("assistant", "\n".join(filter(None, [message.content, *calls])))
    if message.role == "tool":
        return ChatMessage("user", f"The tool says: {message.content}")
    return message


def _call_in(text: str) -> tuple[str, str] | None:
    """Name and arguments, where the object is complete. Raises BadToolCall for an object that is no call."""
    begin = text.find("{")
    if begin < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text, begin)
    except ValueError:
        return None
    except RecursionError:
        raise BadToolCall("the model wrote a call that is nested too deeply") from None
    name, arguments = value.get("tool"), value.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise BadToolCall("the model wrote an object that is no call of a tool")
    return name, json.dumps(arguments, ensure_ascii=False)
