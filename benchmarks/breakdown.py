"""What each millisecond between the end of speech and the first sound was: the ledger's parts, as text and as JSON.

The ledger of a turn splits its critical path into stage x kind, and the parts add up to the server's own estimate
of the felt gap. The felt gap is the client's, from the label to the sound. Two more parts make the sum exact, each
with its sign: how late the server took the speech to have ended (`client speech-end`), and how much later than
estimated the sound came (`client playout`: a reply begins with some quiet milliseconds). The label is as fine as
the client's frames, 20 ms: speech ends with the frame that holds its last sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean

from voicepipe.core.events import BlameKind, TurnRecord

BAR_COLUMNS = 40
LABEL = ("client", "speech-end")
PLAYOUT = ("client", "playout")

Where = tuple[str, str]
"""Stage and kind."""


@dataclass(frozen=True, slots=True)
class TurnPath:
    """One answered turn."""

    name: str
    felt_ms: float
    parts: tuple[tuple[Where, float], ...]
    """In the order of the path, milliseconds; their sum is `felt_ms`."""

    @property
    def unattributed_ms(self) -> float:
        return sum(ms for (_, kind), ms in self.parts if kind == BlameKind.UNATTRIBUTED.value)


def path_of(name: str, felt_ms: float, record: TurnRecord, speech_end_late_ms: float) -> TurnPath:
    """`speech_end_late_ms`: the server's speech end minus the labelled one."""
    parts = [((part.stage.value, part.kind.value), 1000 * part.seconds) for part in record.parts]
    playout_ms = felt_ms - speech_end_late_ms - sum(ms for _, ms in parts)
    return TurnPath(name, felt_ms, ((LABEL, speech_end_late_ms), *parts, (PLAYOUT, playout_ms)))


def median_path(paths: Sequence[TurnPath | None]) -> TurnPath | None:
    """By felt gap and nearest rank; a None counts as infinite. None where that turn has no answer."""
    return _ranked(paths)[_rank(0.5, len(paths))] if paths else None


def middle_paths(paths: Sequence[TurnPath | None]) -> list[TurnPath]:
    """The answered turns from the 40th to the 60th percentile of all."""
    if not paths:
        return []
    first, last = _rank(0.4, len(paths)), _rank(0.6, len(paths))
    return [path for path in _ranked(paths)[first : last + 1] if path is not None]


def mean_parts(paths: Sequence[TurnPath]) -> list[tuple[Where, float]]:
    """The mean of each part over these turns, one that a turn lacks being zero there; in the order of the path."""
    order = _path_order([[where for where, _ in path.parts] for path in paths])
    known = [dict(path.parts) for path in paths]
    return [(where, fmean(parts.get(where, 0.0) for parts in known)) for where in order]


def waterfall(paths: Sequence[TurnPath | None]) -> dict[str, object] | None:
    """The median turn and the middle fifth, for JSON. None where the median turn has no answer."""
    median, middle = median_path(paths), middle_paths(paths)
    if median is None:
        return None
    return {
        "turn": median.name,
        "felt_ms": round(median.felt_ms, 2),
        "parts": _entries(median.parts),
        "p40_to_p60": {
            "n": len(middle),
            "felt_ms": round(fmean(path.felt_ms for path in middle), 2),
            "parts": _entries(mean_parts(middle)),
        },
    }


def waterfall_lines(paths: Sequence[TurnPath | None]) -> list[str]:
    """The same for people: a bar per part, from where it begins to where it ends."""
    median, middle = median_path(paths), middle_paths(paths)
    if median is None:
        return ["the median turn has no answer: there is nothing to split"]
    means, own = dict(mean_parts(middle)), dict(median.parts)
    order = _path_order([list(own), list(means)])
    scale = BAR_COLUMNS / max(median.felt_ms, 1e-9)
    lines = [
        f"median turn ({median.name}): {median.felt_ms:.0f} ms from the end of speech to sound; "
        f"mean over p40 to p60 ({len(middle)} turns)",
        f"  {'stage':<9}{'kind':<13}|{'0':<{BAR_COLUMNS // 2}}{f'{median.felt_ms:.0f} ms':>{BAR_COLUMNS // 2}}|"
        f"{'median':>8}{'mean':>8}",
    ]
    at = 0.0
    for where in order:
        ms = own.get(where, 0.0)
        lines.append(
            f"  {where[0]:<9}{where[1]:<13}|{_bar(at, at + ms, scale)}|{ms:>8.1f}{means.get(where, 0.0):>8.1f}"
        )
        at += ms
    total = fmean(path.felt_ms for path in middle)
    return [*lines, f"  {'sum':<22}|{' ' * BAR_COLUMNS}|{median.felt_ms:>8.1f}{total:>8.1f}"]


def _bar(begin_ms: float, end_ms: float, scale: float) -> str:
    """A part that is negative takes nothing."""
    begin, end = (min(BAR_COLUMNS, max(0, round(scale * ms))) for ms in (begin_ms, end_ms))
    return (" " * begin + "█" * (end - begin)).ljust(BAR_COLUMNS)


def _ranked(paths: Sequence[TurnPath | None]) -> list[TurnPath | None]:
    answered = sorted((path for path in paths if path is not None), key=lambda path: path.felt_ms)
    return [*answered, *[None] * (len(paths) - len(answered))]


def _rank(quantile: float, count: int) -> int:
    """Index by nearest rank, as `voicepipe_client.spread` has it."""
    return max(0, ceil(quantile * count) - 1)


_STAGES = ("endpoint", "asr", "llm", "tts", "send")


def _path_order(several: Sequence[Sequence[Where]]) -> list[Where]:
    """Every part that occurs: the label first, then by stage, within one as the ledger has them, playout last."""
    kinds = [kind.value for kind in BlameKind]

    def place(where: Where) -> tuple[int, int]:
        if where == LABEL:
            return -1, 0
        if where == PLAYOUT:
            return len(_STAGES), 0
        return _STAGES.index(where[0]), kinds.index(where[1])

    return sorted({where for one in several for where in one}, key=place)


def _entries(parts: Sequence[tuple[Where, float]]) -> list[dict[str, object]]:
    return [{"stage": stage, "kind": kind, "ms": round(ms, 2)} for (stage, kind), ms in parts]
