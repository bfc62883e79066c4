"""The values that labels take: fixed sets, and words from elsewhere, of which only so many are kept apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from voicepipe.core.admission import Reason
from voicepipe.core.events import BlameKind, Rung, Stage, Verdict, WorkClass

VERDICTS = tuple(verdict.value for verdict in Verdict)
STAGES = tuple(stage.value for stage in Stage)
CLASSES = tuple(klass.name.lower() for klass in WorkClass)
BLAME_KINDS = tuple(kind.value for kind in BlameKind if kind is not BlameKind.UNUSED)
"""Nothing is blamed on what was left of a share."""
RUNGS = tuple(rung.value for rung in Rung)
LEASE_KINDS = ("session", "llm", "text")
INPUT_LOSSES = ("rate", "backlog")
DECISIONS = ("admitted", "refused", "waiting")
WAITS = ("admitted", "refused", "left")
TEXT_KINDS = ("prefill", "decode")
TEXT_OUTCOMES = ("stop", "length", "cancelled", "failed", "refused")
AHEAD = ("hit", "miss", "none")
"""What became of the replies that were begun ahead of a turn's commit: one was released, all were in vain, there
were none."""
REFUSALS = (
    *(reason.value for reason in Reason),
    "warming_up",
    "engine_stuck",
    "draining",
    "connections",
    "connections_per_address",
    "origin_not_allowed",
    "unauthorized",
)
"""Admission's, then the door's: each is a series from the beginning, so that its first refusal is an increase."""

MOST_WORDS = 32
LONGEST_NAME = 64
_WORD = re.compile(r"[a-z0-9_.-]{1,40}")


class Words:
    """Label values that come from elsewhere: short lower-case words, the rest is "other"."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._seen = set(known)

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= MOST_WORDS or not _WORD.fullmatch(value):
            return "other"
        self._seen.add(value)
        return value


def known(value: str, allowed: tuple[str, ...]) -> str:
    """`value`, which is one of ours. AssertionError where it is none."""
    if value not in allowed:
        raise AssertionError(f"{value!r} is none of {', '.join(allowed)}")
    return value
