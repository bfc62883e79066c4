"""Scripted engines whose replies differ, as those of a model do.

The server keeps the audio of first clauses for replies that begin alike. With one scripted reply for everybody, all
but the first of a session would be free.
"""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import msgspec

from voicepipe.config import Config
from voicepipe.engines.base import Engines, Prompt
from voicepipe.engines.scripted import ScriptedGeneration, ScriptedLlm
from voicepipe.engines.table import load

WORDS = 5
"""Of each reply."""
_LETTERS = "bcdfghklmnprstvw"


class VariousLlm(ScriptedLlm):
    """Five words, the fourth of which hangs on the prompt: the same prompt has the same reply."""

    def generation(self, prompt: Prompt) -> ScriptedGeneration:
        told = crc32(repr(prompt.messages).encode())
        word = "".join(_LETTERS[told >> 4 * place & 15] for place in range(8))
        self._config = msgspec.structs.replace(self._config, reply=f"This is a {word} reply.")
        return super().generation(prompt)


def scripted_engines(config: Config) -> Engines:
    sessions = config.limits.max_sessions
    engines = load(config.engines, None, sessions=sessions, api_key=None)
    return replace(engines, llm=VariousLlm(config.engines.scripted, sessions))
