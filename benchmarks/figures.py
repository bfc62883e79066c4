"""The figures of live turns: from what client and server saw of each labelled turn to one summary. Pure.

Latency and what it is bought with, always together. Rates are fractions from 0 to 1; percentiles run over all
labelled turns, and one without content that stayed counts as infinite, which is printed as null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from breakdown import TurnPath, path_of, waterfall
from clips import RATE_HZ, Labelled
from wer import corpus_wer

from voicepipe.core import events as core
from voicepipe_client import TurnRecord, spread

NOTICED_S = 0.25
"""A commit that reaches the client so soon after a pause was decided in it: the detector needs up to three frames
(96 ms) to hear that speech goes on, and its chunk and the message may stand behind a decode."""


@dataclass(frozen=True, slots=True)
class Commit:
    turn: int
    clip: int
    position: int
    """Samples of the clip that had been sent when it reached the client; after the clip's end, all of them."""
    at: float
    """Client's clock, s."""


@dataclass(frozen=True, slots=True)
class LiveTurn:
    """One labelled turn as it was played to the server."""

    clip: Labelled
    voiced: tuple[float, float]
    """When the frames with the first and the last sample of speech left, client's clock, s."""
    records: Sequence[TurnRecord]
    """The server's turns that came of it, as the client saw them, in order."""
    ledgers: Mapping[int, core.TurnRecord]
    """The same in the server's books, by turn; its scheduler's clock is the client's where both are one process."""
    commits: Sequence[Commit]

    @property
    def answer(self) -> TurnRecord | None:
        """The last one with content that stayed."""
        heard = [record for record in self.records if record.felt_ms is not None]
        return heard[-1] if heard else None

    @property
    def turn_s(self) -> float:
        """First sample of speech to the answer's first sound; to the end of speech where there is none."""
        felt_ms = 0.0 if self.answer is None else self.answer.felt_ms or 0.0
        return self.voiced[1] - self.voiced[0] + felt_ms / 1000

    @property
    def commit_ms(self) -> float | None:
        """Labelled end of speech to the news of the answer's last commit."""
        times = [c.at for c in self.commits if self.answer is not None and c.turn == self.answer.turn]
        return 1000 * (times[-1] - self.voiced[1]) if times else None

    @property
    def path(self) -> TurnPath | None:
        answer = self.answer
        ledger = None if answer is None else self.ledgers.get(answer.turn)
        late_ms = self.speech_end_error_ms
        if answer is None or answer.felt_ms is None or ledger is None or late_ms is None:
            return None
        return path_of(self.clip.name, answer.felt_ms, ledger, late_ms)

    @property
    def speech_end_error_ms(self) -> float | None:
        """The server's speech end minus the labelled one, of the answer's turn."""
        ledger = None if self.answer is None else self.ledgers.get(self.answer.turn)
        if ledger is None or ledger.instants.speech_end is None:
            return None
        return 1000 * (ledger.instants.speech_end - self.voiced[1])

    def cutoffs(self) -> tuple[int, int]:
        """(labelled pauses at which a turn was committed, other commits before the end of speech)."""
        cut: set[tuple[int, int]] = set()
        early = 0
        for commit in self.commits:
            if commit.position >= self.clip.speech_end:
                continue
            pause = pause_at(self.clip.pauses, commit.position)
            if pause is None:
                early += 1
            else:
                cut.add(pause)
        return len(cut), early


def pause_at(pauses: Sequence[tuple[int, int]], position: int) -> tuple[int, int] | None:
    """The pause in which a commit was decided whose news came at `position`."""
    noticed = round(NOTICED_S * RATE_HZ)
    return next((p for p in reversed(pauses) if p[0] < position <= p[1] + noticed), None)


@dataclass(frozen=True, slots=True)
class Point:
    """All turns at one operating point."""

    name: str
    engines: str
    budget_ms: float
    turns: Sequence[LiveTurn]
    reopened: int
    lags_s: Sequence[float] = field(repr=False, default=())
    """What a timer of 5 ms saw of the loop while the turns ran."""


def summarise(point: Point) -> dict[str, object]:
    return {
        **_latency(point),
        **_accuracy(point),
        **_ahead(point),
        **_books(point),
        "operating_point": point.name,
        "engines": point.engines,
        "budget_ms": point.budget_ms,
        "loop_lag_ms": loop_lag_ms(point.lags_s),
        "waterfall": waterfall([turn.path for turn in point.turns]),
    }


def _latency(point: Point) -> dict[str, object]:
    answers = [turn.answer for turn in point.turns]
    felt = [None if a is None else a.felt_ms for a in answers]
    within = sum(ms is not None and ms <= point.budget_ms for ms in felt)
    return {
        "n": len(point.turns),
        "unanswered": sum(a is None for a in answers),
        "felt_ms": spread(felt),
        "within_budget": rate(within, len(felt)),
        "system_ms": spread([None if a is None else a.system_ms for a in answers]),
        "commit_ms": _some(spread([turn.commit_ms for turn in point.turns]), "p50", "p95"),
    }


def _accuracy(point: Point) -> dict[str, object]:
    counts = [turn.cutoffs() for turn in point.turns]
    commits = sum(len(turn.commits) for turn in point.turns)
    pauses = sum(len(turn.clip.pauses) for turn in point.turns)
    texts = [(t.clip.text, " ".join(r.transcript for r in t.records)) for t in point.turns if t.clip.text]
    return {
        "pauses": pauses,
        "false_cutoffs": sum(cut for cut, _ in counts),
        "false_cutoff_rate": rate(sum(cut for cut, _ in counts), pauses),
        "early_commits": sum(early for _, early in counts),
        "commits": commits,
        "retraction_rate": rate(point.reopened, commits),
        "wer": round(corpus_wer(texts).rate, 4) if texts else None,
    }


def _ahead(point: Point) -> dict[str, object]:
    records = [r for turn in point.turns for r in turn.records]
    spoken = [r.speculation for r in records if r.verdict != "empty"]
    wasted_ms = sum(record.speculation.wasted_ms for record in records)
    n = len(point.turns)
    turns_s = sum(turn.turn_s for turn in point.turns)
    return {
        "speculation_hit_rate": rate(sum(ahead.hit for ahead in spoken), len(spoken)),
        "attempts_per_turn": _mean([sum(r.speculation.attempts for r in turn.records) for turn in point.turns]),
        "wasted_ms_per_turn": round(wasted_ms / n, 1) if n else None,
        "wasted_share": round(wasted_ms / 1000 / turns_s, 4) if turns_s else None,
        "saved_ms_per_turn": _mean([t.answer.speculation.saved_ms for t in point.turns if t.answer is not None]),
    }


def _books(point: Point) -> dict[str, object]:
    answers = [turn.answer for turn in point.turns if turn.answer is not None]
    paths = [turn.path for turn in point.turns]
    errors = [ms for turn in point.turns if (ms := turn.speech_end_error_ms) is not None]
    unattributed = [path.unattributed_ms for path in paths if path is not None]
    return {
        "verdicts": dict(Counter(r.verdict for turn in point.turns for r in turn.records if not r.cutoff)),
        "verdict_agreement": rate(sum(agrees(a, point.budget_ms) for a in answers), len(answers)),
        "speech_end_error_ms": _some(spread(errors), "p50", "p95"),
        "unattributed_ms": _some(spread(unattributed), "p50", "p95"),
    }


def agrees(record: TurnRecord, budget_ms: float) -> bool:
    """Did the server say "in time" exactly where the client found it so?"""
    assert record.felt_ms is not None
    return (record.felt_ms <= budget_ms) == (record.verdict in ("met", "degraded"))


def loop_lag_ms(lags_s: Sequence[float]) -> dict[str, float | None]:
    return _some(spread([1000 * lag for lag in lags_s]), "p50", "p99", "max")


def rate(count: int, total: int) -> float | None:
    return round(count / total, 4) if total else None


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 2) if values else None


def _some(values: Mapping[str, float | None], *names: str) -> dict[str, float | None]:
    return {name: values[name] for name in names}


# --- the table


ROWS: tuple[tuple[str, str, str | None], ...] = (
    ("turns", "n", None),
    ("unanswered turns", "unanswered", None),
    ("felt gap p50, ms", "felt_ms", "p50"),
    ("felt gap p95, ms", "felt_ms", "p95"),
    ("within the budget, %", "within_budget", "%"),
    ("system gap p50, ms", "system_ms", "p50"),
    ("commit after speech p50, ms", "commit_ms", "p50"),
    ("pauses of 200 ms and more", "pauses", None),
    ("false cutoffs per pause, %", "false_cutoff_rate", "%"),
    ("commits in shorter gaps", "early_commits", None),
    ("commits taken back, %", "retraction_rate", "%"),
    ("replies begun ahead, %", "speculation_hit_rate", "%"),
    ("attempts per turn", "attempts_per_turn", None),
    ("work in vain per turn, ms", "wasted_ms_per_turn", None),
    ("work in vain, % of turn time", "wasted_share", "%"),
    ("word errors, %", "wer", "%"),
    ("verdicts agree, %", "verdict_agreement", "%"),
    ("speech end, server - label p50, ms", "speech_end_error_ms", "p50"),
    ("unattributed p50, ms", "unattributed_ms", "p50"),
    ("unattributed p95, ms", "unattributed_ms", "p95"),
    ("loop lag p50, ms", "loop_lag_ms", "p50"),
    ("loop lag p99, ms", "loop_lag_ms", "p99"),
    ("loop lag max, ms", "loop_lag_ms", "max"),
)
"""What is printed, its field, and which part of it; "%" shows a fraction in per cent."""


def table(summaries: Sequence[Mapping[str, object]]) -> list[str]:
    """A column for each operating point."""
    lines = [f"{'':<36}" + "".join(f"{s['operating_point']!s:>10}" for s in summaries)]
    for title, name, part in ROWS:
        lines.append(f"{title:<36}" + "".join(f"{_cell(s[name], part):>10}" for s in summaries))
    return lines


def _cell(value: object, part: str | None) -> str:
    if isinstance(value, Mapping) and part is not None:
        value = value[part]
    if value is None:
        return "null"
    assert isinstance(value, int | float)
    if part == "%":
        return f"{100 * value:.1f}"
    return str(value) if isinstance(value, int) else f"{value:.1f}"
