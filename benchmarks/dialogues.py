"""A labelled set for endpointing: what users say to an assistant, with pauses of known length inside.

Every text is cut by `|` at places where people stop to think: behind a conjunction, a filler or an article, at a
comma, between two clauses, within a telephone number or a spelling. A voice speaks the text in one go with a comma
at each of them, so that what comes before sounds as if it went on; spoken by itself it would fall as at an end. The
short silences that the voice makes there are replaced by pauses drawn evenly from 200 to 1,500 ms.

Every text comes `takes` times with its pauses, if it has places for them, and `takes` times without. Readings by
people are cut where their reader paused, and get the same pauses, or 60 ms. The two halves of the set share no
text: what is tuned on one is reported on the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from voicepipe.audio import Samples, silence

RATE_HZ = 16_000
PAUSE_S = (0.2, 1.5)
"""Drawn evenly from here."""
COUNTED_PAUSE_S = 0.2
"""Shorter gaps are no pauses."""
JOINT_S = 0.06
"""Between the pieces of a reading that is to go on without a pause."""
SEAM_S = 0.1
"""What the voice is silent for at a comma, at the least."""
NEAR = 0.2
"""How far from its place by the letters a seam may be, as a part of the whole."""
LEAD_S, TAIL_S = 0.5, 3.2
"""Silence around a turn; the tail is longer than the longest wait of any operating point."""
ROOM_DBFS = -65.0
"""White noise under everything: no microphone delivers zeros."""
SPEECH_DB = -40.0
"""10 ms windows above this, relative to the loudest one of the piece, are speech."""
READING_DB = -25.0
"""The same for recordings, whose rooms and breaths lie 30 to 40 dB below the voice."""
RATES = (0.85, 1.0, 1.2)
"""How the voice's time is stretched, from fast to slow."""

Half = Literal["tuning", "report"]
Kind = Literal["word", "comma", "clause", "digits", "filler", "natural", "none"]
Speak = Callable[[str, float], Samples]
"""Text and stretch to samples at `RATE_HZ`."""

TEXTS: tuple[tuple[Kind, str], ...] = (
    ("word", "I would like to book a table for four and|a high chair for the baby."),
    ("word", "Can you tell me the way to|the central station?"),
    ("word", "Please turn off the lights in the|living room."),
    ("word", "I need to know whether the|shop is open on Sunday."),
    ("word", "Set a timer for|twenty five minutes."),
    ("word", "I left my keys somewhere because|I was in a hurry this morning."),
    ("word", "What is the difference between a|crocodile and an alligator?"),
    ("word", "Remind me to call my|sister tomorrow at noon."),
    ("word", "Could you play something by|the Rolling Stones?"),
    ("word", "I want to go to Berlin but|I do not know when the train leaves."),
    ("word", "Send a message to Anna that|I will be ten minutes late."),
    ("word", "Is there a pharmacy near|the university?"),
    ("comma", "If it rains tomorrow,|what should we do with the children?"),
    ("comma", "When I was in London last year,|I saw a wonderful play."),
    ("comma", "For dinner I need tomatoes,|two onions,|and a little garlic."),
    ("comma", "After the meeting is over,|please send me the notes."),
    ("comma", "Before you go to bed,|could you lock the front door?"),
    ("comma", "Next Friday evening,|I have an appointment with the dentist."),
    ("comma", "Put milk, bread,|and a dozen eggs on my shopping list."),
    ("comma", "As far as I remember,|the bill was already paid in March."),
    ("comma", "Hello there,|I have a question about my order."),
    ("comma", "To be honest,|I am not sure that I need the bigger one."),
    ("clause", "I have a problem with my phone.|The screen stays black."),
    ("clause", "We are looking for a hotel in Rome,|it should not cost more than a hundred euros."),
    ("clause", "My flight was cancelled.|Can I get my money back?"),
    ("clause", "The soup is too salty,|what can I do about it?"),
    ("clause", "I tried to log in this morning.|It says that my password is wrong."),
    ("clause", "My daughter is seven years old.|Which book would you give her?"),
    ("clause", "I bought a plant last week.|Its leaves are turning yellow.|What does it need?"),
    ("clause", "There is a noise in the engine,|it only comes when I turn left."),
    ("digits", "My phone number is five five five,|one two three,|four seven eight nine."),
    ("digits", "The code on the card is four one,|seven two,|nine six."),
    ("digits", "Please call me back at oh two oh,|seven nine four six,|oh one double two."),
    ("digits", "My name is Keller, that is K, E,|L, L, E, R."),
    ("digits", "The order number is eight zero three,|two two five,|one nine."),
    ("digits", "My account ends in six six,|four one."),
    ("filler", "I think it was, um,|the second street on the left."),
    ("filler", "Can you, uh,|find me a cheap flight to Madrid?"),
    ("filler", "So, like,|what happens if I cancel the order?"),
    ("filler", "Well, you know,|I was hoping for something in blue."),
    ("filler", "It should be, er,|about thirty centimetres wide."),
    ("filler", "I wanted to ask, um,|how long the warranty is."),
    ("none", "What is the capital of France?"),
    ("none", "Yes, please."),
    ("none", "No, thank you."),
    ("none", "What time is it?"),
    ("none", "Tell me a joke."),
    ("none", "Why is the sky blue during the day?"),
    ("none", "That sounds good."),
    ("none", "How do I boil an egg?"),
    ("none", "Stop the music."),
    ("none", "I am not sure."),
)
READINGS: tuple[tuple[str, tuple[tuple[float, float], ...], str], ...] = (
    ("two_cities", ((1.19, 2.83), (2.98, 4.55)), "It was the best of times, it was the worst of times."),
    ("two_cities", ((5.02, 6.20), (6.66, 8.20)), "It was the age of wisdom, it was the age of foolishness."),
    ("two_cities", ((8.82, 10.30), (10.76, 12.79)), "It was the epoch of belief, it was the epoch of incredulity."),
    ("two_cities", ((13.47, 14.78), (15.15, 16.69)), "It was the season of light, it was the season of darkness."),
    ("two_cities", ((17.57, 18.74), (18.98, 20.46)), "It was the spring of hope, it was the winter of despair."),
    (
        "two_cities",
        ((24.65, 26.04), (26.55, 28.28)),
        "We were all going direct to heaven, we were all going direct the other way.",
    ),
    ("two_cities", ((29.10, 29.61), (29.93, 32.43)), "In short, the period was so far like the present period."),
    (
        "two_cities",
        ((36.94, 38.36), (38.70, 41.63)),
        "For good or for evil, in the superlative degree of comparison only.",
    ),
    ("beckett", ((0.25, 1.25), (1.68, 2.90)), "Ever tried. Ever failed."),
    ("beckett", ((3.50, 4.12), (4.55, 5.55)), "No matter. Try again."),
    ("beckett", ((6.60, 7.50), (8.10, 8.95)), "Fail again. Fail better."),
)
"""Recording, the phrases between its reader's pauses in seconds, and what is said."""


@dataclass(frozen=True, slots=True)
class LabelledTurn:
    """One turn of a user, `LEAD_S` of silence before it and `TAIL_S` behind."""

    name: str
    kind: Kind
    half: Half
    samples: Samples
    """16 kHz mono."""
    text: str
    speech_end: int
    """One past the last sample of speech, to 10 ms."""
    pauses: tuple[tuple[int, int], ...]
    """[start, end) of every gap of 200 ms and more inside the speech, ascending."""


def dialogues(speak: Speak, recordings: Mapping[str, Samples], *, takes: int, seed: int) -> list[LabelledTurn]:
    """The whole set. `recordings` by name, at `RATE_HZ`; the readings of one that is missing are left out."""
    rng = random.Random(seed)
    turns = []
    for number, (kind, text) in enumerate(TEXTS):
        whole, places = text.replace("|", " "), text.count("|")
        for take in range(2 * takes if places else takes):
            stretch, paused = rng.choice(RATES), take >= takes
            spoken = trim(speak(_as_one(text) if paused else whole, stretch), SPEECH_DB)
            pieces = split(spoken, _fractions(text)) if paused else [spoken]
            pauses_s = [rng.uniform(*PAUSE_S) for _ in pieces[1:]]
            name = f"t{number:02}.{take}"
            turns.append(assemble(name, kind, _half(number), pieces, pauses_s, whole, rng, SPEECH_DB))
    return turns + list(_readings(recordings, takes, rng))


def _as_one(text: str) -> str:
    """One sentence with a comma at each place."""
    *pieces, last = text.split("|")
    return ", ".join([*(piece.rstrip(".,") for piece in pieces), last])


def _fractions(text: str) -> list[float]:
    """How much of the text has been said at each place."""
    pieces = text.split("|")
    return [sum(map(len, pieces[:n])) / sum(map(len, pieces)) for n in range(1, len(pieces))]


def split(spoken: Samples, fractions: Sequence[float]) -> list[Samples]:
    """The pieces between the silences that lie nearest to these parts of the whole, without the silences. Raises
    ValueError where one would be further off than `NEAR`."""

    def miss(seams: Sequence[tuple[int, int]]) -> list[float]:
        middles = [(start + end) / 2 / len(spoken) for start, end in seams]
        return [abs(middle - fraction) for middle, fraction in zip(middles, fractions, strict=True)]

    choices = combinations(gaps(spoken, SPEECH_DB, SEAM_S), len(fractions))
    seams = min(choices, key=lambda choice: sum(miss(choice)), default=None)
    if seams is None or max(miss(seams)) > NEAR:
        raise ValueError(
            f"the voice makes no pauses near {', '.join(f'{part:.2f}' for part in fractions)} of its text"
        )
    starts, ends = [0, *(end for _, end in seams)], [*(start for start, _ in seams), len(spoken)]
    return [spoken[start:end] for start, end in zip(starts, ends, strict=True)]


def _half(number: int) -> Half:
    """Of a text by its place in its list: neighbours are of one kind, and go to different halves."""
    return "report" if number % 2 else "tuning"


def _readings(recordings: Mapping[str, Samples], takes: int, rng: random.Random) -> Iterator[LabelledTurn]:
    for number, (recording, phrases, text) in enumerate(READINGS):
        if recording not in recordings:
            continue
        pieces = [
            trim(recordings[recording][int(start_s * RATE_HZ) : int(end_s * RATE_HZ)], READING_DB)
            for start_s, end_s in phrases
        ]
        for take in range(2 * takes):
            pauses_s = [rng.uniform(*PAUSE_S) if take >= takes else JOINT_S for _ in pieces[1:]]
            name = f"r{number:02}.{take}"
            yield assemble(name, "natural", _half(number), pieces, pauses_s, text, rng, READING_DB)


def assemble(
    name: str,
    kind: Kind,
    half: Half,
    pieces: Sequence[Samples],
    pauses_s: Sequence[float],
    text: str,
    rng: random.Random,
    level_db: float,
) -> LabelledTurn:
    """Pieces of trimmed speech with a pause of the given length after each but the last."""
    parts, pauses, at = [silence(int(LEAD_S * RATE_HZ))], [], int(LEAD_S * RATE_HZ)
    for number, piece in enumerate(pieces):
        pauses += [(at + start, at + end) for start, end in gaps(piece, level_db)]
        parts.append(piece)
        at += len(piece)
        if number < len(pauses_s):
            pause = round(pauses_s[number] * RATE_HZ)
            if pause >= COUNTED_PAUSE_S * RATE_HZ:
                pauses.append((at, at + pause))
            parts.append(silence(pause))
            at += pause
    parts.append(silence(int(TAIL_S * RATE_HZ)))
    clean = np.concatenate(parts)
    room = np.random.default_rng(rng.getrandbits(32)).standard_normal(len(clean), np.float32)
    samples = (clean + room * np.float32(10 ** (ROOM_DBFS / 20))).astype(np.float32)
    return LabelledTurn(name, kind, half, samples, text, at, tuple(pauses))


def trim(samples: Samples, level_db: float) -> Samples:
    """From the first to the last 10 ms window of speech. ValueError where all is silent."""
    loud = np.flatnonzero(_speech(samples, level_db))
    if len(loud) == 0:
        raise ValueError("there is no speech in a piece")
    return samples[loud[0] * _WINDOW : (loud[-1] + 1) * _WINDOW]


def gaps(samples: Samples, level_db: float, least_s: float = COUNTED_PAUSE_S) -> list[tuple[int, int]]:
    """[start, end) of the stretches of `least_s` and more without speech, between speech."""
    loud = np.flatnonzero(_speech(samples, level_db))
    steps = np.flatnonzero(np.diff(loud) > least_s * RATE_HZ / _WINDOW)
    return [(int(loud[step] + 1) * _WINDOW, int(loud[step + 1]) * _WINDOW) for step in steps]


_WINDOW = RATE_HZ // 100


def _speech(samples: Samples, level_db: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Per whole 10 ms window: is it within `level_db` of the loudest?"""
    windows = samples[: len(samples) // _WINDOW * _WINDOW].reshape(-1, _WINDOW)
    power = np.mean(np.square(windows, dtype=np.float64), axis=1)
    loudest = power.max(initial=0.0)
    speech: np.ndarray[tuple[int], np.dtype[np.bool_]] = (power > loudest * 10 ** (level_db / 10)) & (loudest > 0.0)
    return speech
