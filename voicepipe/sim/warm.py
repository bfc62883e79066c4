"""What a server's warm-up would have measured: chunks of the sizes that conversations have, and ways of replies.

The cost model of a simulated server begins with what a real one begins with, so that its first turns are priced.
Sizes are those of `voicepipe.sweep`, cut as the engines cut them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from voicepipe.core.background import text_variant
from voicepipe.core.batches import BATCH
from voicepipe.core.clauses import ClauseSplitter
from voicepipe.core.demand import Expected
from voicepipe.core.events import Load, Way, WorkKind
from voicepipe.core.forecast import Measured
from voicepipe.sim.replies import REPLIES, Reply, steps_of
from voicepipe.sim.service import MODEL, Manner, ServiceModel, Times
from voicepipe.sim.steps import ASR
from voicepipe.sim.voice import NAME

ROUNDS = 3
WINDOWS_S = (0.6, 1.2, 2.0, 3.0)
CONTEXTS = (40, 160, 400)
CLAUSE_CHARACTERS = (5, 30, 48)
BATCHES = (2, 3, 4, 8)
"""Replies in one chunk."""
QUESTION_TOKENS = 12
"""New ones, behind a prefix that has been read."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    chunks: tuple[Measured, ...]
    ways: tuple[Way, ...]
    final_s: float
    clause_s: float
    audio_s: float

    @property
    def total_s(self) -> float:
        """From speech end to the first audio, of a turn that waits for nothing and had nothing done ahead."""
        return self.final_s + self.clause_s + self.audio_s

    @property
    def expected(self) -> Expected:
        return Expected(self.total_s, self.final_s)


def warm_up(model: ServiceModel, text_slots: int, chance: Random) -> WarmUp:
    """`text_slots`: of the model, for texts; 0: none are written. What the model has no costs of is
    not measured; raises ConfigError where a turn needs them."""
    times = Times(model)

    def service_s(kind: WorkKind, load: Load) -> float:
        return times.service_s(kind, load, chance.random())

    loads = [*_voice_loads(model.manner)]
    if text_slots:
        loads += _text_loads(model.manner, text_slots)
    loads = [(kind, load) for kind, load in loads if model.find(kind, load.variant) is not None]
    chunks = [Measured(kind, load, service_s(kind, load)) for _ in range(ROUNDS) for kind, load in loads]
    chunks += [batch for _ in range(ROUNDS) for batch in _batches(times, chance)]
    ways = [_way(model.manner, service_s, reply) for reply in REPLIES[:ROUNDS]]
    clause_s = sum(way.read_s + way.thought_s for way in ways) / len(ways)
    final_s = service_s(WorkKind.FINAL, Load(ASR, 2.5))
    audio_s = service_s(WorkKind.SPEAK, Load(NAME, CLAUSE_CHARACTERS[1], variant="first"))
    return WarmUp(tuple(chunks), tuple(ways), final_s, clause_s, audio_s)


def _voice_loads(manner: Manner) -> Iterator[tuple[WorkKind, Load]]:
    for window_s in WINDOWS_S:
        yield WorkKind.PARTIAL, Load(ASR, window_s)
        yield WorkKind.FINAL, Load(ASR, window_s)
        if manner.rechecks:
            yield WorkKind.FINAL, Load(ASR, window_s, variant="recheck")
    for context in CONTEXTS:
        for tokens in (manner.template_tokens + 1, QUESTION_TOKENS, 2 * QUESTION_TOKENS):
            yield WorkKind.THINK, Load(MODEL, min(tokens, manner.read_tokens), context, "prefill")
        yield WorkKind.THINK, Load(MODEL, manner.write_tokens, context, "decode")
    for characters in CLAUSE_CHARACTERS:
        yield WorkKind.SPEAK, Load(NAME, characters, variant="first")
    for share in (0.4, 1.0):
        yield WorkKind.SPEAK, Load(NAME, round(share * manner.piece_s * manner.rate_hz), variant="later")


def _batches(times: Times, chance: Random) -> Iterator[Measured]:
    manner = times.model.manner
    for rows in (rows for rows in BATCHES if rows <= manner.write_batch):
        for context in CONTEXTS:
            load = Load(MODEL, manner.write_tokens, context, "decode", rows)
            service_s = times.batch_s([(WorkKind.THINK, load, chance.random()) for _ in range(rows)])
            whole = Load(MODEL, rows * load.units, rows * context, BATCH, rows)
            yield Measured(WorkKind.THINK, whole, service_s)


def _text_loads(manner: Manner, slots: int) -> Iterator[tuple[WorkKind, Load]]:
    yield WorkKind.GENERATE, Load(MODEL, 400, variant="split")
    for context in CONTEXTS:
        for tokens in manner.text_reading:
            yield WorkKind.GENERATE, Load(MODEL, tokens, context, "prefill")
        for rows in range(1, slots + 1):
            for tokens in manner.text_writing[:3]:
                yield WorkKind.GENERATE, Load(MODEL, tokens, tokens * context * rows, text_variant(rows))


def _way(manner: Manner, service_s: Callable[[WorkKind, Load], float], reply: Reply) -> Way:
    """Of a reply to a question that follows what has been read already."""
    splitter, way, context = ClauseSplitter(), Way(), CONTEXTS[0]
    unread = QUESTION_TOKENS
    while unread:
        units = min(unread, manner.read_tokens)
        way = way.after(service_s(WorkKind.THINK, Load(MODEL, units, context, "prefill")))
        unread, context = unread - units, context + units
    for text, tokens in steps_of(reply, manner.write_tokens, manner.tokens_per_word):
        way = way.after(service_s(WorkKind.THINK, Load(MODEL, tokens, context, "decode")))
        way = replace(way, has_token=way.has_token or bool(text))
        context += tokens
        clauses = splitter.feed(text)
        if clauses:
            return replace(way, clause_characters=len(clauses[0]))
    return replace(way, clause_characters=len(reply.text))
