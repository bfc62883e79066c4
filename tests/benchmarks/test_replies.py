"""Scripted replies that differ with what they answer."""

from __future__ import annotations

import asyncio
from inspect import isawaitable

from jobs import config_of
from replies import VariousLlm

from tests import virtual
from voicepipe.engines.base import ChatMessage, Prompt


async def _reply(text: str) -> str:
    generation = VariousLlm(config_of("none", 2).engines.scripted, 2).generation(
        Prompt((ChatMessage("user", text),), 16)
    )
    said, finished = "", False
    while not finished:
        step = generation.step()
        step = await step if isawaitable(step) else step
        said, finished = said + step.text, step.finish is not None
    return said


async def _replies(*texts: str) -> list[str]:
    return list(await asyncio.gather(*(_reply(text) for text in texts)))


def test_the_same_question_has_the_same_reply_and_another_one_has_another() -> None:
    """They begin with the same words, as those of a model do, so that what is kept of them is of use."""
    one, again, other = virtual.run(_replies("What is it?", "What is it?", "Who is it?"))
    assert one == again != other
    assert one.split()[:3] == other.split()[:3] == ["This", "is", "a"] and len(other.split()) == 5
