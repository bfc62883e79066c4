"""Chat messages to the text that a model was trained on, by the Jinja template in its GGUF file.

A template comes with a model file that anybody may have made, so it runs in Jinja's immutable sandbox. Text
of the conversation never reaches the tokenizer as markup: the spelling of every control token is taken out
of it first, so that nobody can end the user's turn or open a system turn by typing (or saying) `<|im_end|>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from voicepipe.engines.base import ChatMessage
from voicepipe.errors import EngineError, ModelCorrupt

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""For a file without a template: the most common convention among small chat models."""

_REFUSED = "the model's chat template refuses the order of turns"
"""The template's own words are left out: they may quote the conversation."""


class ChatTemplate:
    """One model's template. `control` holds the spellings of its control tokens."""

    def __init__(self, source: str, *, bos: str, eos: str, control: Iterable[str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise
        try:
            self._template = environment.from_string(source or CHATML)
        except TemplateError as error:
            raise ModelCorrupt(f"the model's chat template is not valid Jinja: {error}") from error
        self._tokens = {"bos_token": bos, "eos_token": eos}
        longest_first = sorted((text for text in control if text), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The prompt's text, up to where the assistant begins to speak. Raises EngineError."""
        plain = [{"role": m.role, "content": self.neutral(m.content)} for m in messages]
        try:
            return self._render(plain)
        except TemplateError as error:
            if len(plain) < 2 or plain[0]["role"] != "system":
                raise EngineError(_REFUSED) from error
        # Some models know no system role (Gemma 2): its text then opens the first turn.
        merged = dict(plain[1], content=f"{plain[0]['content']}\n\n{plain[1]['content']}")
        try:
            return self._render([merged, *plain[2:]])
        except TemplateError as error:
            raise EngineError(_REFUSED) from error

    def parts(self, messages: Sequence[ChatMessage]) -> list[str]:
        """The same text, cut before every control token. No token of a model reaches beyond one, so that what is
        the same in two prompts is the same tokens, part by part. Raises EngineError."""
        text = self.render(messages)
        begins = [0, *(mark.start() for mark in self._control.finditer(text) if mark.start()), len(text)]
        return [text[begin:end] for begin, end in pairwise(begins)]

    def neutral(self, text: str) -> str:
        """`text` without any control token's spelling, also where taking one out would make another."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        found = 1
        while found:
            text, found = self._control.subn("", text)
        return text

    def _render(self, messages: list[dict[str, str]]) -> str:
        # `enable_thinking`: models that can think aloud first (Qwen 3) would make the caller wait.
        return self._template.render(
            messages=messages, add_generation_prompt=True, enable_thinking=False, **self._tokens
        )


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
