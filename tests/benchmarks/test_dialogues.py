"""The labelled set: its labels are where the sound is."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.dialogues import (
    JOINT_S,
    LEAD_S,
    PAUSE_S,
    RATE_HZ,
    RATES,
    READINGS,
    SPEECH_DB,
    TAIL_S,
    TEXTS,
    LabelledTurn,
    assemble,
    dialogues,
    gaps,
    split,
    trim,
)
from voicepipe.audio import Samples, silence

RECORDINGS = {
    name: (0.1 * np.random.default_rng(3).standard_normal(45 * RATE_HZ)).astype(np.float32)
    for name in ("two_cities", "beckett")
}


def noise(seconds: float, *, level: float = 0.1) -> Samples:
    n = round(seconds * RATE_HZ)
    return (level * np.random.default_rng(n).choice([-1.0, 1.0], n)).astype(np.float32)


def hum(text: str, stretch: float) -> Samples:
    """20 ms of sound a character, 150 ms of silence behind a comma, and silence around it as voices make it."""
    said = [noise(0.02 * (len(piece) + 1) * stretch) for piece in text.split(",")]
    parts = [part for piece in said for part in (piece, silence(2_400))]
    return np.concatenate([silence(800), *parts])


@pytest.fixture(scope="module")
def turns() -> list[LabelledTurn]:
    return dialogues(hum, RECORDINGS, takes=1, seed=0)


def audible(turn: LabelledTurn) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Per sample: louder than the room?"""
    loud: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.abs(turn.samples) > 0.01
    return loud


# --- labels ------------------------------------------------------------------------------------------------


def test_speech_ends_at_its_label(turns: list[LabelledTurn]) -> None:
    for turn in turns:
        last = int(np.flatnonzero(audible(turn))[-1])
        assert abs(last + 1 - turn.speech_end) <= RATE_HZ // 100
        assert len(turn.samples) - turn.speech_end == int(TAIL_S * RATE_HZ)


def test_pauses_are_silent_and_speech_stands_on_both_sides(turns: list[LabelledTurn]) -> None:
    for turn in turns:
        loud = audible(turn)
        for start, end in turn.pauses:
            assert int(LEAD_S * RATE_HZ) < start < end < turn.speech_end
            assert not loud[start:end].any()
            assert loud[start - 160 : start].any() and loud[end : end + 160].any()


def test_every_silence_of_200_ms_inside_the_speech_is_labelled(turns: list[LabelledTurn]) -> None:
    for turn in turns:
        places = np.flatnonzero(audible(turn))
        wide = np.flatnonzero(np.diff(places) > 0.195 * RATE_HZ)
        assert len(wide) == len(turn.pauses)


def test_a_pause_within_a_piece_is_labelled_too() -> None:
    piece = np.concatenate([noise(0.5), silence(int(0.25 * RATE_HZ)), noise(0.5)])
    turn = assemble("x", "natural", "report", [piece], [], "", random.Random(0), SPEECH_DB)
    at = int((LEAD_S + 0.5) * RATE_HZ)
    assert turn.pauses == ((at, at + int(0.25 * RATE_HZ)),)


def test_a_short_pause_is_no_pause() -> None:
    pieces = [noise(0.5), noise(0.5)]
    turn = assemble("x", "natural", "report", pieces, [JOINT_S], "", random.Random(0), SPEECH_DB)
    assert turn.pauses == ()
    assert turn.speech_end == round((LEAD_S + 1.0 + JOINT_S) * RATE_HZ)


# --- the draw ----------------------------------------------------------------------------------------------


def test_the_set_is_as_large_as_it_is_said_to_be(turns: list[LabelledTurn]) -> None:
    """Sixty turns at the least, and about half of them with pauses."""
    paused = [turn for turn in turns if turn.pauses]
    assert len(turns) >= 60
    assert 0.4 < len(paused) / len(turns) < 0.6
    assert len(dialogues(hum, RECORDINGS, takes=3, seed=0)) == 3 * len(turns)


def test_pauses_are_drawn_evenly_from_their_range() -> None:
    drawn = [
        (end - start) / RATE_HZ
        for turn in dialogues(hum, RECORDINGS, takes=4, seed=5)
        for start, end in turn.pauses
    ]
    low, high = PAUSE_S
    assert low - 0.01 <= min(drawn) and max(drawn) <= high + 0.01
    counts, _ = np.histogram(drawn, bins=4, range=(low, high))
    assert counts.min() > 0.7 * len(drawn) / 4


def test_one_seed_is_one_set_and_another_is_another(turns: list[LabelledTurn]) -> None:
    again, other = dialogues(hum, RECORDINGS, takes=1, seed=0), dialogues(hum, RECORDINGS, takes=1, seed=1)
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(turns, again, strict=True))
    assert [turn.pauses for turn in again] == [turn.pauses for turn in turns]
    assert [turn.pauses for turn in other] != [turn.pauses for turn in turns]


def test_the_halves_share_no_text_and_hold_every_kind(turns: list[LabelledTurn]) -> None:
    texts = {half: {turn.text for turn in turns if turn.half == half} for half in ("tuning", "report")}
    assert not texts["tuning"] & texts["report"]
    kinds = {half: {turn.kind for turn in turns if turn.half == half} for half in ("tuning", "report")}
    assert kinds["tuning"] == kinds["report"] == {kind for kind, _ in TEXTS} | {"natural"}


def test_each_kind_of_place_has_texts_for_both_halves() -> None:
    for half in (0, 1):
        assert len({kind for kind, _ in TEXTS[half::2]}) == len({kind for kind, _ in TEXTS})
    assert all(text.count("|") >= 1 for kind, text in TEXTS if kind != "none")


def test_a_text_with_pauses_is_spoken_in_one_go_with_commas_at_its_places() -> None:
    said: list[tuple[str, float]] = []

    def listen(text: str, stretch: float) -> Samples:
        said.append((text, stretch))
        return hum(text, stretch)

    dialogues(listen, {}, takes=1, seed=0)
    texts = [text for text, _ in said]
    assert texts.count("Set a timer for twenty five minutes.") == 1
    assert texts.count("Set a timer for, twenty five minutes.") == 1
    assert texts.count("My flight was cancelled, Can I get my money back?") == 1
    assert {stretch for _, stretch in said} == set(RATES)


def test_without_a_recording_its_readings_are_left_out(turns: list[LabelledTurn]) -> None:
    only = dialogues(hum, {"beckett": RECORDINGS["beckett"]}, takes=1, seed=0)
    readings = [reading for reading in READINGS if reading[0] == "two_cities"]
    assert len(turns) - len(only) == 2 * len(readings)


# --- tools -------------------------------------------------------------------------------------------------


def test_trimming_keeps_what_is_speech() -> None:
    piece = np.concatenate([silence(1_600), noise(0.3), noise(0.1, level=0.0005), silence(800)])
    assert len(trim(piece, SPEECH_DB)) == round(0.3 * RATE_HZ)


def test_a_piece_without_speech_is_an_error() -> None:
    with pytest.raises(ValueError, match="no speech"):
        trim(silence(1_600), SPEECH_DB)


def test_speech_is_split_at_the_silences_nearest_to_its_places() -> None:
    first, second, third = noise(0.5), noise(0.3), noise(0.7)
    gap = silence(2_400)
    pieces = split(np.concatenate([first, gap, second, gap, third]), [0.35, 0.55])
    assert [len(piece) for piece in pieces] == [len(first), len(second), len(third)]
    joined = split(np.concatenate([first, gap, second, gap, third]), [0.35])
    assert [len(piece) for piece in joined] == [len(first), len(second) + len(gap) + len(third)]


def test_a_voice_without_a_pause_there_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"near 0\.90"):
        split(np.concatenate([noise(0.5), silence(2_400), noise(0.5)]), [0.9])
    with pytest.raises(ValueError, match="no pauses"):
        split(noise(1.0), [0.5])


def test_a_gap_is_counted_from_its_length_on() -> None:
    def with_gap(seconds: float) -> Samples:
        return np.concatenate([noise(0.2), silence(round(seconds * RATE_HZ)), noise(0.2)])

    assert gaps(with_gap(0.19), SPEECH_DB) == []
    assert gaps(with_gap(0.20), SPEECH_DB) == [(3_200, 6_400)]
