"""Pictures wait for an encoder unless one remembers them, and none is encoded twice at once."""

from __future__ import annotations

import pytest

from tests.sim.experiments.checks import QUICK, check_charts, check_twice, rows_of
from voicepipe.sim.experiments import vision_pool
from voicepipe.sim.experiments.vision_pool import EXPERIMENT, Encoders, encode_s, picture_tokens
from voicepipe.sim.timeline import Timeline


def asked(encoders: Encoders, pictures: list[int]) -> list[float]:
    """When each was done that was asked for at once."""
    done = [-1.0] * len(pictures)

    def note(place: int) -> None:
        done[place] = encoders.timeline.now

    for place, picture in enumerate(pictures):
        encoders.encode(picture, 1000, lambda place=place: note(place))  # type: ignore[misc]
    encoders.timeline.run()
    return done


def test_one_queue_before_some_encoders() -> None:
    one = encode_s(1000)
    encoders = Encoders(Timeline(), 2)
    assert asked(encoders, [1, 2, 3]) == pytest.approx([one, one, 2 * one])
    assert encoders.busy_s == pytest.approx(3 * one) and encoders.busy == 0


def test_a_picture_is_encoded_once_and_then_remembered() -> None:
    encoders = Encoders(Timeline(), 1)
    assert asked(encoders, [7, 7]) == pytest.approx([encode_s(1000)] * 2)
    assert asked(encoders, [7]) == [encoders.timeline.now]
    assert (encoders.asked, encoders.hits) == (3, 2)


def test_what_was_shown_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision_pool, "CACHED_PICTURES", 2)
    encoders = Encoders(Timeline(), 1)
    asked(encoders, [1, 2])
    asked(encoders, [1])
    asked(encoders, [3])
    asked(encoders, [1, 2])
    assert (encoders.asked, encoders.hits) == (6, 2)


def test_remembering_does_what_encoders_do() -> None:
    """And the shape is bound by what is read: thirty tokens for each one written."""
    points = EXPERIMENT.points(QUICK)
    rows = {(row["encoders"], row["repeats"]): row for row in rows_of(EXPERIMENT, points)}
    few, more, remembered = rows["1 encoder", 0.0], rows["4 encoders", 0.0], rows["1 encoder", 0.9]
    assert more["first_token_p95_s"] < few["first_token_p95_s"] / 2  # type: ignore[operator]
    assert remembered["first_token_p95_s"] < few["first_token_p95_s"] / 2  # type: ignore[operator]
    assert few["hit_rate"] == 0 and remembered["hit_rate"] > 0.7  # type: ignore[operator]
    for row in rows.values():
        assert 25 < row["read_per_written"] < 40  # type: ignore[operator]
    assert picture_tokens() == 5476
    check_charts(EXPERIMENT, list(rows.values()))
    check_twice(EXPERIMENT, points[0])
