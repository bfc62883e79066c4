"""The ledger of one turn: every instant, what it waited for and what served it, the verdict and the blame.

The deadline is fixed at speech end and never restarted. Until the first content is sent, the critical path is
one of three chains, and the stages' shares add up to the felt gap by construction:

    audio ready before the commit   speech end .. commit (endpoint) .. sent .. heard
    reply begun before the commit   speech end .. soft end (endpoint) .. begun .. clause .. audio .. sent .. heard
    reply begun at the commit       speech end .. commit (endpoint) .. clause .. audio .. sent .. heard

A turn that is refused has come so far on one of them: the stage in which it stood ends with the refusal.

Where the commit waited for the final text, the way to it is split: speech end .. soft end (endpoint) .. final text.
The endpoint's span is patience until the sound had arrived that ended it, and from then on the ears' time.

How each stage's time is split, and what lateness is blamed on, is told in `core.blame`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isclose

from voicepipe.core.acknowledge import LEAD_S
from voicepipe.core.blame import SHARES, Chunk, background_s, blame, listened, share, split
from voicepipe.core.events import (
    BlameKind,
    Forecast,
    Hearing,
    Instants,
    Part,
    RefusedFor,
    Speculation,
    Stage,
    Timing,
    TurnRecord,
    Verdict,
    Waits,
    Way,
)


@dataclass(slots=True)
class _Reply:
    """Marks of the reply that would be released."""

    begun: float
    speculative: bool
    llm_first: float | None = None
    answer_first: float | None = None
    clause: float | None = None
    audio: float | None = None


class Ledger:
    def __init__(
        self, turn: int, budget_s: float, downlink_s: float, shares: Mapping[Stage, float] = SHARES
    ) -> None:
        """`downlink_s`: estimated time from the socket to audibility at the client. `shares`: what each stage is
        planned to take, as fractions of the budget; they sum up to 1."""
        assert isclose(sum(shares.values()), 1.0)
        self.turn = turn
        self._budget_s = budget_s
        self._downlink_s = downlink_s
        self._shares_s = {stage: part * budget_s for stage, part in shares.items()}
        self._speech_end: float | None = None
        self._soft_end: float | None = None
        self._commit: float | None = None
        self._newest_hearing: Hearing | None = None
        self._soft_end_by: Hearing | None = None
        self._commit_by: Hearing | None = None
        self._asr_final: float | None = None
        self._acknowledged: float | None = None
        self._sent: float | None = None
        self._behind_s = 0.0
        """What was still to be played before the content when it was sent."""
        self._stalled_s = 0.0
        self._heard: float | None = None
        self._reply: _Reply | None = None
        self._chunks: dict[Stage, list[Chunk]] = {stage: [] for stage in Stage}
        self._forecasts: list[Forecast] = []
        self._rungs: list[str] = []
        self._ways: list[Way] = []
        self._attempts = 0
        self._wasted_s = 0.0
        self._reopened = 0
        self._failed: str | None = None
        self._refused: RefusedFor | None = None
        self._refused_at: float | None = None

    # marks

    def on_hearing(self, hearing: Hearing) -> None:
        """The ears have listened. What is marked in the instant in which that was known was decided by it."""
        self._newest_hearing = hearing

    def on_soft_end(self, speech_end: float, now: float) -> None:
        """Speech ended at `speech_end`; we learnt of it at `now`."""
        self._speech_end, self._soft_end = min(speech_end, now), now
        self._soft_end_by = self._hearing_of(now)
        self._forecasts.clear()  # they were about another deadline

    def on_asr_final(self, now: float) -> None:
        """The final text is known. It may become known again, after the user has gone on."""
        self._asr_final = now

    def on_commit(self, now: float) -> None:
        self._commit, self._commit_by = now, self._hearing_of(now)
        if self._speech_end is None:  # typed input
            self._speech_end = self._soft_end = now

    def on_reopen(self) -> None:
        self._reopened += 1
        self._commit = self._acknowledged = self._sent = self._heard = None
        self._rungs.clear()

    def on_reply_begun(self, now: float) -> None:
        speculative = self._commit is None
        self._attempts += speculative
        self._reply = _Reply(now, speculative)
        self._chunks[Stage.LLM], self._chunks[Stage.TTS] = [], []
        self._rungs.clear()  # they were taken for another reply

    def on_reply_dropped(self) -> None:
        if self._reply is not None:
            self._wasted_s += sum(t.share_s for t in self._reply_timings())
            self._reply = None

    def on_service(
        self,
        stage: Stage,
        timing: Timing,
        waits: Waits | None = None,
        *,
        bound_s: float = 0.0,
        batch_s: float = 0.0,
        now: float | None = None,
    ) -> None:
        """A chunk has run. `waits` stands in for the timing's own. `bound_s`: declared for its
        service, 0 where none was. `batch_s`: what companions in a batch added to it. `now`: when its result was
        taken up, where that differs from `timing.finished`."""
        known = timing.waits if waits is None else waits
        taken = timing.finished if now is None else now
        self._chunks[stage].append(Chunk(timing, known, bound_s, batch_s, taken))

    def on_late_service(self, timing: Timing) -> None:
        """A chunk ended whose reply had been dropped while it ran."""
        self._wasted_s += timing.share_s

    def on_llm_first(self, now: float) -> None:
        """A token of the model, be it a thought."""
        if self._reply is not None and self._reply.llm_first is None:
            self._reply.llm_first = now

    def on_answer_first(self, now: float) -> None:
        """A token of what will be said."""
        if self._reply is not None and self._reply.answer_first is None:
            self._reply.answer_first = now

    def on_clause(self, now: float) -> None:
        if self._reply is not None and self._reply.clause is None:
            self._reply.clause = now

    def on_audio(self, now: float) -> None:
        if self._reply is not None and self._reply.audio is None:
            self._reply.audio = now

    def on_acknowledged(self, now: float) -> None:
        """A sound that is no content was handed to the socket."""
        if self._acknowledged is None:
            self._acknowledged = now

    def on_sent(self, now: float, behind_s: float = 0.0) -> None:
        """First content handed to the socket; `behind_s`: of an acknowledgement that is heard before it."""
        if self._sent is None:
            self._sent, self._behind_s = now, behind_s

    def on_heard(self, now: float, played_s: float = 0.0) -> None:
        """The client reports that it has played so much of the content. Playing began `played_s` before, or earlier
        if it stalled or the report was under way: of several reports the earliest beginning holds."""
        if self._sent is not None:
            began = now - played_s if self._heard is None else min(self._heard, now - played_s)
            self._heard = max(self._sent, began)

    def on_stalled(self, seconds: float) -> None:
        """So long has playback of the reply stood still so far, for want of audio."""
        self._stalled_s = seconds

    def on_predicted(self, stage: Stage, predicted_remaining_s: float, now: float) -> None:
        """At a boundary, `stage` is next: so much service is expected until the first content is at the socket.
        What is predicted after that is about the rest of the reply, and has no deadline here."""
        if self._sent is None:
            deadline, finish = self.deadline, now + predicted_remaining_s
            slack_s = None if deadline is None else deadline - finish
            self._forecasts.append(Forecast(stage, now, slack_s, finish))

    def on_rung(self, name: str) -> None:
        """A rung of the ladder was taken for the sake of the deadline."""
        self._rungs.append(name)

    def on_way(self, way: Way) -> None:
        """A reply has its first clause, or will never have one."""
        self._ways.append(way)

    def on_refused(self, reason: RefusedFor, now: float) -> None:
        self._refused, self._refused_at = reason, now

    def on_failed(self, code: str) -> None:
        """`code` of the engine's error."""
        self._failed = code

    # questions

    @property
    def deadline(self) -> float | None:
        """Instant at which the first content must be handed to the socket; None before speech end."""
        return None if self._speech_end is None else self.due(self._speech_end)

    def due(self, speech_end: float) -> float:
        """The deadline of speech that ends then."""
        return speech_end + self._budget_s - self._downlink_s

    @property
    def masks_until(self) -> float | None:
        """By when an acknowledgement must be handed to the socket to mask that the content is late: the deadline.
        Where the commit is late itself, or so near to the deadline, it is the time that a sound takes to get there
        from the commit on: before that nothing may be heard. None before speech end."""
        deadline = self.deadline
        if deadline is None or self._commit is None:
            return deadline
        return max(deadline, self._commit + LEAD_S)

    @property
    def wasted_s(self) -> float:
        """Service that went into replies which were dropped."""
        return self._wasted_s

    def record(self, *, empty: bool = False, expects_reply: bool = True, now: float | None = None) -> TurnRecord:
        """`now`: when the turn ended."""
        felt_s, system_s = self._gaps()
        parts = self._parts()
        verdict = self._verdict(felt_s, empty, expects_reply)
        late = verdict in (Verdict.MISSED, Verdict.MASKED, Verdict.REFUSED)
        return TurnRecord(
            turn=self.turn,
            verdict=verdict,
            felt_estimate_s=felt_s,
            system_s=system_s,
            stages={stage: share(stage, parts) for stage in Stage},
            speculation=self._speculation(),
            blame=blame(parts, self._planned_s()) if late and parts else None,
            reopened=self._reopened,
            budget_s=self._budget_s,
            deadline=self.deadline,
            instants=self._instants(now),
            parts=parts,
            forecasts=tuple(self._forecasts),
            rungs=tuple(self._rungs),
            ways=tuple(self._ways),
            background_s=self._background_s(),
            reason=self._failed or self._refused,
            stalled_s=self._stalled_s,
        )

    # inner

    def _hearing_of(self, now: float) -> Hearing | None:
        newest = self._newest_hearing
        return newest if newest is not None and newest.taken == now else None

    def _reply_timings(self) -> Iterable[Timing]:
        return [chunk.timing for stage in (Stage.LLM, Stage.TTS) for chunk in self._chunks[stage]]

    def _instants(self, now: float | None) -> Instants:
        reply = self._reply
        return Instants(
            speech_end=self._speech_end,
            soft_end=self._soft_end,
            eager=None if reply is None or not reply.speculative else reply.begun,
            commit=self._commit,
            asr_final=self._asr_final,
            llm_first=None if reply is None else reply.llm_first,
            answer_first=None if reply is None else reply.answer_first,
            clause=None if reply is None else reply.clause,
            audio=None if reply is None else reply.audio,
            acknowledged=self._acknowledged,
            sent=self._sent,
            heard=self._heard,
            ended=now,
        )

    def _audible(self, sent: float) -> float:
        """Reports can show that it was later than estimated, and never that it was earlier."""
        estimate = sent + self._behind_s + self._downlink_s
        return estimate if self._heard is None else max(estimate, self._heard)

    def _gaps(self) -> tuple[float | None, float | None]:
        if self._sent is None or self._speech_end is None or self._commit is None:
            return None, None
        return self._audible(self._sent) - self._speech_end, self._sent - self._commit

    def _verdict(self, felt_s: float | None, empty: bool, expects_reply: bool) -> Verdict:
        if self._failed is not None:
            return Verdict.FAILED
        if self._refused is not None:
            return Verdict.REFUSED
        if empty:
            return Verdict.EMPTY
        if felt_s is None and expects_reply:
            return Verdict.INTERRUPTED
        if felt_s is None and self._is_masked():  # it owes no content, which comes when a tool has run
            return Verdict.MASKED
        if felt_s is not None and felt_s > self._budget_s:
            return Verdict.MASKED if self._is_masked() else Verdict.MISSED
        return Verdict.DEGRADED if self._rungs else Verdict.MET

    def _is_masked(self) -> bool:
        until = self.masks_until
        return until is not None and self._acknowledged is not None and self._acknowledged <= until

    def _path_end(self) -> float | None:
        """Of the critical path, at the server: the first content at the socket, or the end of the acknowledgement
        that it waits behind; or the refusal. None where it came to neither."""
        if self._speech_end is None or self._commit is None:
            return None
        return self._refused_at if self._sent is None else self._sent + self._behind_s

    def _boundaries(self, path_end: float) -> list[tuple[Stage, float]]:
        """(stage, its end) along the critical path. The last one's is `path_end`: of a turn that is refused, it is
        the one that had not ended."""
        assert self._commit is not None and self._soft_end is not None
        reply = self._reply
        path = [(Stage.ENDPOINT, self._commit)]
        if self._asr_final is not None and self._asr_final >= self._commit:  # it came last of all
            path = [(Stage.ENDPOINT, self._soft_end), (Stage.ASR, self._commit)]
        if reply is None or self._was_ready(reply):
            return [*path, (Stage.SEND, path_end)]
        if reply.speculative:
            path = [(Stage.ENDPOINT, self._soft_end), (Stage.ASR, reply.begun)]
        for stage, made in ((Stage.LLM, reply.clause), (Stage.TTS, reply.audio)):
            if made is None:
                return [*path, (stage, path_end)]
            path.append((stage, made))
        return [*path, (Stage.SEND, path_end)]

    def _was_ready(self, reply: _Reply) -> bool:
        """It waited for the commit, and not the other way round."""
        if self._refused is RefusedFor.LATE_COMMIT:
            return True
        if reply.clause is None or reply.audio is None:
            return self._sent is not None
        assert self._commit is not None
        return reply.audio <= self._commit

    def _spans(self) -> Iterator[tuple[Stage, float, float]]:
        """(stage, its beginning, its end) along the critical path at the server."""
        path_end, begin = self._path_end(), self._speech_end
        if path_end is None or begin is None:
            return
        for stage, end in self._boundaries(path_end):
            yield stage, begin, end
            begin = max(begin, end)

    def _background_s(self) -> float:
        return sum(background_s(begin, end, self._chunks[stage]) for stage, begin, end in self._spans())

    def _parts(self) -> tuple[Part, ...]:
        """The critical path, split; in its order."""
        parts: list[Part] = []
        path_end = self._path_end()
        for stage, begin, end in self._spans():
            if stage is Stage.ENDPOINT:
                parts += listened(begin, end, self._soft_end_by if end == self._soft_end else self._commit_by)
            else:
                unfinished = self._sent is None and self._refused is RefusedFor.NO_CONTENT and end == path_end
                rest = BlameKind.UNFINISHED if unfinished else None
                parts += split(stage, begin, end, self._chunks[stage], rest=rest)
        if self._sent is not None and path_end is not None:
            parts.append(Part(Stage.SEND, BlameKind.CLIENT, self._audible(self._sent) - path_end))
        return tuple(parts)

    def _planned_s(self) -> Mapping[Stage, float]:
        """Of a turn that is refused, the shares of the stages that it had come to."""
        if self._sent is not None:
            return self._shares_s
        return {stage: self._shares_s[stage] for stage, begin, end in self._spans() if end > begin}

    def _speculation(self) -> Speculation:
        reply, speech_end = self._reply, self._speech_end
        hit = reply is not None and reply.speculative and self._commit is not None
        saved_s = 0.0
        if hit and speech_end is not None:
            saved_s = sum(max(0.0, min(speech_end, t.finished) - t.started) for t in self._reply_timings())
        return Speculation(hit, self._attempts, saved_s, self._wasted_s)
