"""Clauses in pieces, and first clauses that are made once."""

from __future__ import annotations

from voicepipe.core.events import Speak
from voicepipe.sim.service import MADE, Manner
from voicepipe.sim.voice import MAX_OPENINGS, Voice, silence

MANNER = Manner(rate_hz=8000, second_per_word=0.25, piece_s=0.5, first_piece_s=0.25)


def test_a_clause_comes_in_pieces_of_their_length() -> None:
    voice = Voice(MANNER)
    voice.begin(Speak("one two three four", first=True))
    made, last = [], False
    while not last:
        piece, load = voice.next_piece()
        pcm, last = piece.make()
        made.append((load.variant, load.units, len(pcm) // 2))
    assert made == [("first", 18, 2000), ("later", 4000, 4000), ("later", 2000, 2000)]


def test_a_first_clause_that_was_made_is_not_made_again() -> None:
    """Only what was made of it; later clauses are made each time."""
    voice = Voice(MANNER)
    voice.begin(Speak("one two three", first=True))
    piece, _ = voice.next_piece()
    piece.make()
    voice.begin(Speak("one two three", first=True))
    first, load = voice.next_piece()
    assert load.variant == MADE and load.units == 0 and first.make()[0] == silence(2000)
    _, load = voice.next_piece()
    assert load.variant == "later"
    for _ in range(2):
        voice.begin(Speak("four five", first=False))
        piece, load = voice.next_piece()
        piece.make()
        assert load.variant == "first"


def test_a_clause_that_is_at_the_machine_twice_is_made_once() -> None:
    """Both have been asked for before either is made."""
    voice = Voice(MANNER)
    pieces = []
    for _ in range(2):
        voice.begin(Speak("one two", first=True))
        pieces.append(voice.next_piece()[0])
    assert pieces[0].make() == pieces[1].make() and pieces[0].clause is pieces[1].clause


def test_only_so_many_openings_are_kept() -> None:
    voice = Voice(MANNER)
    for number in range(MAX_OPENINGS + 1):
        voice.begin(Speak(f"one {number}", first=True))
        voice.next_piece()[0].make()
    voice.begin(Speak("one 0", first=True))
    assert voice.next_piece()[1].variant == "first"
    voice.begin(Speak(f"one {MAX_OPENINGS}", first=True))
    assert voice.next_piece()[1].variant == MADE


def test_silence_is_one_object_for_each_length() -> None:
    assert silence(100) is silence(100) and len(silence(100)) == 200
