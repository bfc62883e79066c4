"""How much of a prompt is new, told without splitting it into tokens.

That would be exact, and cost a millisecond for a short prompt and twenty for a long one, on the event loop. Here
characters are compared, which costs microseconds, and counted as tokens at a common rate.
"""

from __future__ import annotations

from collections.abc import Sequence

from voicepipe.engines.base import ChatMessage

CHARACTERS_PER_TOKEN = 4.2
"""English, in the vocabularies of small models: 4.0 to 4.5."""
MESSAGE_TOKENS = 5
"""What a template writes around a message, and at the end to open the reply."""


def tokens_of(messages: Sequence[ChatMessage]) -> float:
    """All of them, and the opening of the reply."""
    return sum(_tokens(len(message.content)) for message in messages) + MESSAGE_TOKENS


def unread_tokens(read: Sequence[ChatMessage], messages: Sequence[ChatMessage]) -> float:
    """Those behind the longest beginning that `read`, the prompt before, has in common with this one; at least the
    opening of the reply, which also follows what has been read to its end."""
    same = 0
    for old, new in zip(read, messages, strict=False):
        if old != new:
            break
        same += 1
    rest = tokens_of(messages[same:])
    if same < min(len(read), len(messages)) and read[same].role == messages[same].role:
        rest -= _tokens(_shared(read[same].content, messages[same].content))
    return max(rest, MESSAGE_TOKENS)


def _tokens(characters: int) -> float:
    return MESSAGE_TOKENS + characters / CHARACTERS_PER_TOKEN


def _shared(old: str, new: str) -> int:
    """Length of the common beginning."""
    for index, (a, b) in enumerate(zip(old, new, strict=False)):
        if a != b:
            return index
    return min(len(old), len(new))
