"""The ledger of one turn: every instant, what it waited for and what served it, the verdict and the blame.

The deadline is fixed at speech end and never restarted. Until the first content is sent, the critical path is
one of three chains, and the stages' shares add up to the felt gap by construction:

    audio ready before the commit   speech end .. commit (endpoint) .. sent
    reply begun before the commit   speech end .. soft end (endpoint) .. final text .. clause .. audio .. sent
    reply begun at the commit       speech end .. commit (endpoint) .. clause .. audio .. sent
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from voicepipe.core.events import (
    Blame,
    Share,
    Speculation,
    Stage,
    Timing,
    TurnRecord,
    Verdict,
)

SHARES = {
    Stage.ENDPOINT: 0.325,
    Stage.ASR: 0.125,
    Stage.LLM: 0.225,
    Stage.TTS: 0.2,
    Stage.SEND: 0.125,
}
"""Each stage's part of the budget, for attribution only: slack is global. 65, 25, 45, 40 and 25 of 200 ms."""


@dataclass(slots=True)
class _Reply:
    """Marks of the reply that would be released."""

    begun: float
    speculative: bool
    clause: float | None = None
    audio: float | None = None


class Ledger:
    def __init__(self, turn: int, budget_s: float, downlink_s: float) -> None:
        """`downlink_s`: estimated time from the socket to audibility at the client."""
        self.turn = turn
        self._budget_s = budget_s
        self._downlink_s = downlink_s
        self._speech_end: float | None = None
        self._soft_end: float | None = None
        self._commit: float | None = None
        self._sent: float | None = None
        self._reply: _Reply | None = None
        self._timings: dict[Stage, list[Timing]] = {Stage.ASR: [], Stage.LLM: [], Stage.TTS: []}
        self._attempts = 0
        self._wasted_s = 0.0
        self._reopened = 0
        self._failed = False

    # marks

    def on_soft_end(self, speech_end: float, now: float) -> None:
        """Speech ended at `speech_end`; we learnt of it at `now`."""
        self._speech_end, self._soft_end = min(speech_end, now), now

    def on_commit(self, now: float) -> None:
        self._commit = now
        if self._speech_end is None:  # typed input, or a manual commit in the middle of speech
            self._speech_end = self._soft_end = now

    def on_reopen(self) -> None:
        self._reopened += 1
        self._commit = self._sent = None

    def on_reply_begun(self, now: float) -> None:
        speculative = self._commit is None
        self._attempts += speculative
        self._reply = _Reply(now, speculative)
        self._timings[Stage.LLM], self._timings[Stage.TTS] = [], []

    def on_reply_dropped(self) -> None:
        if self._reply is not None:
            self._wasted_s += sum(t.service_s for t in self._reply_timings())
            self._reply = None

    def on_service(self, stage: Stage, timing: Timing) -> None:
        self._timings[stage].append(timing)

    def on_late_service(self, timing: Timing) -> None:
        """A chunk ended whose reply had been dropped while it ran."""
        self._wasted_s += timing.service_s

    def on_clause(self, now: float) -> None:
        if self._reply is not None and self._reply.clause is None:
            self._reply.clause = now

    def on_audio(self, now: float) -> None:
        if self._reply is not None and self._reply.audio is None:
            self._reply.audio = now

    def on_sent(self, now: float) -> None:
        """First content handed to the socket."""
        if self._sent is None:
            self._sent = now

    def on_failed(self) -> None:
        self._failed = True

    # questions

    @property
    def deadline(self) -> float | None:
        """Instant at which the first content must be handed to the socket; None before speech end."""
        if self._speech_end is None:
            return None
        return self._speech_end + self._budget_s - self._downlink_s

    @property
    def content_sent(self) -> bool:
        return self._sent is not None

    def record(self, *, empty: bool = False, expects_reply: bool = True) -> TurnRecord:
        felt_s, system_s = self._gaps()
        shares = self._shares()
        verdict = self._verdict(felt_s, empty, expects_reply)
        return TurnRecord(
            turn=self.turn,
            verdict=verdict,
            felt_estimate_s=felt_s,
            system_s=system_s,
            stages=shares,
            speculation=self._speculation(),
            blame=self._blame(shares) if verdict is Verdict.MISSED else None,
            reopened=self._reopened,
        )

    # inner

    def _reply_timings(self) -> Iterable[Timing]:
        return [*self._timings[Stage.LLM], *self._timings[Stage.TTS]]

    def _gaps(self) -> tuple[float | None, float | None]:
        if self._sent is None or self._speech_end is None or self._commit is None:
            return None, None
        return self._sent + self._downlink_s - self._speech_end, self._sent - self._commit

    def _verdict(self, felt_s: float | None, empty: bool, expects_reply: bool) -> Verdict:
        if self._failed:
            return Verdict.FAILED
        if empty:
            return Verdict.EMPTY
        if felt_s is None:
            return Verdict.INTERRUPTED if expects_reply else Verdict.MET
        return Verdict.MISSED if felt_s > self._budget_s else Verdict.MET

    def _boundaries(self) -> list[tuple[Stage, float]]:
        """(stage, its end) along the critical path up to the first content."""
        assert self._commit is not None and self._sent is not None
        send = (Stage.SEND, self._sent + self._downlink_s)
        reply, commit = self._reply, (Stage.ENDPOINT, self._commit)
        if reply is None or reply.clause is None or reply.audio is None or reply.audio <= self._commit:
            return [commit, send]
        made = [(Stage.LLM, reply.clause), (Stage.TTS, reply.audio)]
        if not reply.speculative:
            return [commit, *made, send]
        assert self._soft_end is not None
        return [(Stage.ENDPOINT, self._soft_end), (Stage.ASR, reply.begun), *made, send]

    def _shares(self) -> dict[Stage, Share]:
        shares = dict.fromkeys(Stage, Share())
        if self._gaps()[0] is None:
            return shares
        assert self._speech_end is not None
        begin = self._speech_end
        for stage, end in self._boundaries():
            end = max(begin, end)
            service_s = sum(
                max(0.0, min(end, t.finished) - max(begin, t.started)) for t in self._timings.get(stage, [])
            )
            shares[stage] = Share(end - begin - service_s, service_s)
            begin = end
        return shares

    def _speculation(self) -> Speculation:
        reply, commit = self._reply, self._commit
        hit = reply is not None and reply.speculative and commit is not None
        saved_s = 0.0
        if hit and commit is not None:
            saved_s = sum(max(0.0, min(commit, t.finished) - t.started) for t in self._reply_timings())
        return Speculation(hit, self._attempts, saved_s, self._wasted_s)

    def _blame(self, shares: dict[Stage, Share]) -> Blame | None:
        over = {
            stage: share.wait_s + share.service_s - SHARES[stage] * self._budget_s
            for stage, share in shares.items()
        }
        stage = max(over, key=lambda s: over[s])
        share = shares[stage]
        kind = "wait" if share.wait_s > share.service_s else "service"
        if stage is Stage.ENDPOINT:
            kind = "endpoint"
        return Blame(stage, kind, over[stage])
