"""The waterfall of the median turn: parts that add up to the felt gap, in the order of the path."""

from __future__ import annotations

from itertools import pairwise

import pytest
from breakdown import LABEL, PLAYOUT, TurnPath, mean_parts, median_path, middle_paths, path_of, waterfall
from breakdown import waterfall_lines as lines

from voicepipe.core.events import BlameKind, Part, Speculation, Stage, TurnRecord, Verdict


def record(*parts: tuple[Stage, BlameKind, float]) -> TurnRecord:
    return TurnRecord(
        1, Verdict.MET, 0.2, 0.1, {}, Speculation(), None, parts=tuple(Part(s, k, ms / 1000) for s, k, ms in parts)
    )


def path(felt_ms: float, name: str = "x") -> TurnPath:
    return TurnPath(name, felt_ms, ((("llm", "service"), felt_ms),))


SPLIT = record(
    (Stage.ENDPOINT, BlameKind.ENDPOINT, 60.0),
    (Stage.LLM, BlameKind.SERVICE, 80.0),
    (Stage.LLM, BlameKind.UNATTRIBUTED, 3.0),
    (Stage.SEND, BlameKind.CLIENT, 2.0),
)


def test_the_parts_are_the_felt_gap() -> None:
    """The server's parts are its estimate; the client's own two make the rest, with their signs."""
    one = path_of("x", 140.0, SPLIT, -10.0)
    assert one.parts[0] == (LABEL, -10.0)
    assert one.parts[-1] == (PLAYOUT, pytest.approx(5.0))
    assert sum(ms for _, ms in one.parts) == pytest.approx(140.0)
    assert one.unattributed_ms == pytest.approx(3.0)


def test_the_median_is_by_nearest_rank_and_unanswered_turns_are_last() -> None:
    paths = [path(300.0), None, path(100.0), path(200.0)]
    found = median_path(paths)
    assert found is not None and found.felt_ms == 200.0
    assert median_path([None, None, path(100.0)]) is None
    assert median_path([]) is None


@pytest.mark.parametrize("count", [1, 2, 5, 10, 11, 40])
def test_the_median_lies_in_the_middle_fifth(count: int) -> None:
    paths = [path(float(ms)) for ms in range(count)]
    middle = middle_paths(paths)
    assert median_path(paths) in middle
    assert count / 5 <= len(middle) <= count / 5 + 2


def test_the_middle_fifth_is_of_all_turns() -> None:
    """Ten turns, four of them without an answer: the middle is what is just below the median and above it."""
    paths = [*[path(float(ms)) for ms in range(1, 7)], None, None, None, None]
    assert [one.felt_ms for one in middle_paths(paths)] == [4.0, 5.0, 6.0]
    assert middle_paths([None, None]) == []


def test_a_part_that_a_turn_lacks_is_zero_in_the_mean() -> None:
    with_wait = TurnPath("a", 30.0, ((("asr", "wait"), 10.0), (("asr", "service"), 20.0)))
    without = TurnPath("b", 10.0, ((("asr", "service"), 10.0),))
    assert mean_parts([with_wait, without]) == [(("asr", "wait"), 5.0), (("asr", "service"), 15.0)]


def test_json_holds_the_turn_and_the_middle() -> None:
    told = waterfall([path_of("q1", 140.0, SPLIT, -10.0)])
    assert told is not None
    assert (told["turn"], told["felt_ms"]) == ("q1", 140.0)
    parts = told["parts"]
    assert isinstance(parts, list)
    assert parts[1] == {"stage": "endpoint", "kind": "endpoint", "ms": 60.0}
    middle = told["p40_to_p60"]
    assert isinstance(middle, dict)
    assert (middle["n"], middle["felt_ms"], middle["parts"]) == (1, 140.0, parts)
    assert waterfall([None]) is None


def test_bars_follow_each_other_and_negative_parts_have_none() -> None:
    one = path_of("q1", 140.0, SPLIT, -10.0)
    rows = lines([one])[2:-1]
    bars = {tuple(row.split("|")[0].split()): row.split("|")[1] for row in rows}
    assert "█" not in bars["client", "speech-end"]
    ends = [bar.rstrip() for bar in bars.values() if "█" in bar]
    assert all(len(a) == len(b) - b.count("█") for a, b in pairwise(ends)), "no gap"
    assert len(bars["endpoint", "endpoint"]) == 40
    total = lines([one])[-1]
    assert total.split("|")[0].split() == ["sum"] and total.split()[-2:] == ["140.0", "140.0"]
    assert "no answer" in lines([None])[0]
