"""A request on its way through a simulated engine, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from voicepipe.sim.traffic import Turn

Refusal = Literal["queue", "memory"]
"""The queue was full; or it would not fit into an empty device."""


@dataclass(slots=True, eq=False)
class Request:
    arrived_s: float
    """When it was meant to be there; latencies count from here."""
    prompt_tokens: int
    """With the prefix."""
    output_tokens: int
    """Thoughts and answer."""
    thinking_tokens: int = 0
    clause_tokens: int = 1
    """So many tokens of the answer are a first clause."""
    priority: int = 0
    """Lower ones begin first."""
    prefix: str = ""
    """Name of what its prompt begins with, `prefix_tokens` long, shared with others; "" is nothing."""
    prefix_tokens: int = 0
    session: str = ""
    """Whose context may be here from an earlier turn; "" is nobody's."""
    keep_s: float | None = None
    """How many seconds what is reusable of its context stays for certain after its end; None: nothing is kept."""
    turn: Turn | None = None

    submitted_s: float = 0.0
    started_s: float | None = None
    """Its first step began."""
    first_s: float | None = None
    """Its first token, of thought or answer."""
    clause_s: float | None = None
    ended_s: float | None = None
    """All tokens are there. None for good where it was refused."""
    refused: Refusal | None = None
    cached_tokens: int = 0
    """Of the prompt, those that were here when it began first."""
    prefilled_tokens: int = 0
    """Those that were computed, again after a preemption included."""
    preempted: int = 0
    """How often it was put back for want of memory."""
    tokens_left: int | None = None
    """To be produced when it was put back last."""

    @property
    def private_tokens(self) -> int:
        """Of the prompt, without what is shared."""
        return self.prompt_tokens - self.prefix_tokens

    @property
    def reusable_tokens(self) -> int:
        """Of its context, after the prefix, with which the session's next prompt begins: thoughts are left out of a
        history, so that the answer after them stands elsewhere then. The last token has never been read."""
        return self.private_tokens + (self.output_tokens - 1 if not self.thinking_tokens else 0)

    @property
    def first_token_s(self) -> float | None:
        """From arrival."""
        return None if self.first_s is None else self.first_s - self.arrived_s

    @property
    def token_s(self) -> float | None:
        """Between its tokens, in the mean; 0 with a single one."""
        if self.first_s is None or self.ended_s is None:
            return None
        return (self.ended_s - self.first_s) / max(1, self.output_tokens - 1)


def request_of(turn: Turn, keep_s: float | None = 0.0, clause_tokens: int = 1, priority: int = 0) -> Request:
    return Request(
        arrived_s=turn.at_s,
        prompt_tokens=turn.prompt_tokens,
        output_tokens=turn.output_tokens,
        thinking_tokens=turn.thinking_tokens,
        clause_tokens=min(clause_tokens, turn.answer_tokens),
        priority=priority,
        prefix=turn.shape if turn.prefix_tokens else "",
        prefix_tokens=turn.prefix_tokens,
        session=turn.session,
        keep_s=keep_s,
        turn=turn,
    )
