"""How long to wait: by score, never less than the words ask for, never more than the hard cap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.patience import (
    HARD_CAP_S,
    OPERATING_POINTS,
    UNFINISHED,
    Patience,
    Speaker,
    is_open,
    is_quiet_enough,
    is_worth_asking,
    needed_silence_s,
    text_score,
)

FAST = OPERATING_POINTS["fast"]
BALANCED = OPERATING_POINTS["balanced"]
SAFE = OPERATING_POINTS["safe"]


@pytest.mark.parametrize(
    ("score", "silence_s"),
    [(1.0, 0.096), (0.8, 0.096), (0.79, 0.096), (0.6, 0.096), (0.59, 0.64), (0.4, 0.64), (0.39, 1.4), (0.0, 1.4)],
)
def test_the_fast_point_waits_three_frames_for_what_looks_finished(score: float, silence_s: float) -> None:
    """The steps of S(p), each from its lower bound on."""
    assert FAST.silence_s(score) == silence_s


@pytest.mark.parametrize(
    ("score", "silence_s"),
    [
        (1.0, 0.128),
        (0.9, 0.128),
        (0.89, 0.256),
        (0.8, 0.256),
        (0.79, 0.416),
        (0.6, 0.416),
        (0.59, 0.64),
        (0.4, 0.64),
        (0.39, 1.4),
        (0.0, 1.4),
    ],
)
def test_the_balanced_point_waits_longer_for_what_looks_finished(score: float, silence_s: float) -> None:
    """Its own table."""
    assert BALANCED.silence_s(score) == silence_s


def test_nothing_is_waited_for_longer_than_the_hard_cap() -> None:
    """Two and a half seconds."""
    assert HARD_CAP_S == 2.5


def test_the_safe_point_waits_out_nearly_every_pause() -> None:
    """However complete it looks: of pauses up to 1.5 s it takes one in twenty for the end."""
    assert [SAFE.silence_s(score) for score in (1.0, 0.8, 0.3, 0.0)] == [1.376, 1.376, 1.44, 1.44]


@pytest.mark.parametrize("score", [0.0, 0.1, 0.35, 0.5, 0.65, 0.8, 1.0])
def test_the_points_are_ordered_by_how_patient_they_are(score: float) -> None:
    """Balanced is never quicker than fast, nor is safe."""
    assert FAST.silence_s(score) <= BALANCED.silence_s(score)
    assert FAST.silence_s(score) <= SAFE.silence_s(score)


def test_a_speaker_who_was_cut_off_gets_more_time() -> None:
    """A fifth more than the pause; clean turns take it back little by little."""
    speaker = Speaker(FAST)
    assert speaker.patience == FAST
    speaker.on_false_start("One is it.", 0.12)
    assert speaker.patience.silence_s(1.0) == pytest.approx(0.144)
    assert speaker.patience.open_s == pytest.approx(2.1)
    assert speaker.patience.silence_s(0.0) == pytest.approx(2.1)
    speaker.on_false_start("One is it.", 0.1)
    assert speaker.patience.silence_s(1.0) == pytest.approx(0.144), "it has more already"
    speaker.on_clean_turn()
    assert speaker.patience.silence_s(1.0) == pytest.approx(0.1296)
    for _ in range(20):
        speaker.on_clean_turn()
    assert speaker.patience == FAST


@pytest.mark.parametrize(
    ("point", "text", "pause_s", "longer"),
    [
        (FAST, "One is it.", 0.13, True),
        (FAST, "One is it.", 0.15, False),
        (FAST, "One is it", 0.9, True),
        (FAST, "One is it", 1.0, False),
        (BALANCED, "One is it.", 1.0, True),
        (BALANCED, "One is it.", 1.1, False),
        (BALANCED, "One is it", 1.5, True),
        (BALANCED, "One is it", 1.7, False),
    ],
)
def test_more_patience_is_not_given_in_vain(point: Patience, text: str, pause_s: float, longer: bool) -> None:
    """The most would have been too little for the pause: three times as much, less at `fast`."""
    speaker = Speaker(point)
    speaker.on_false_start(text, pause_s)
    assert (speaker.patience != point) is longer


def test_the_points_are_known_by_their_names() -> None:
    """The names of the command line and of the wire."""
    assert {name: point.name for name, point in OPERATING_POINTS.items()} == {
        "fast": "fast",
        "balanced": "balanced",
        "safe": "safe",
    }


def test_a_score_below_every_step_waits_for_the_hard_cap() -> None:
    """A table with a hole leaves nobody waiting for ever."""
    assert Patience("odd", ((0.5, 0.1),), open_s=1.0).silence_s(0.2) == HARD_CAP_S


def test_a_step_above_the_hard_cap_is_cut_to_it() -> None:
    """No table can ask for more."""
    assert Patience("slow", ((0.0, 60.0),), open_s=1.0).silence_s(0.9) == HARD_CAP_S


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("What time is it?", 0.95),
        ("Tell me a joke. ", 0.85),
        ("Stop!", 0.85),
        ("Stop! What is that?", 0.95),
        ("Yes, please.", 0.85),
        ("My flight was cancelled. What now?", 0.95),
        ("tell me a joke", 0.4),
        ("", 0.4),
        ("Well, I was thinking...", 0.15),
        ("Well, I was thinking…", 0.15),
        ("I need milk,", 0.15),
        ("It is -", 0.15),
        ("the following:", 0.15),
        ("first;", 0.15),
    ],
)
def test_punctuation_tells_how_finished_a_text_looks(text: str, score: float) -> None:
    """Recognisers punctuate what sounds finished; dots and commas say that more is to come."""
    assert text_score(text) == score


@pytest.mark.parametrize(
    "text",
    [
        "I have a problem with my phone.",
        "My flight was cancelled.",
        "Well, there is a noise in the engine.",
        "Yes. The screen stays black.",
        "On Sunday I go home.",
        "and it's cold!",
    ],
)
def test_a_statement_may_be_made_for_what_follows(text: str) -> None:
    """The last sentence counts: people say what the matter is, and then what they want."""
    assert text_score(text) == 0.7
    assert needed_silence_s(text, None, BALANCED) == 0.416
    assert needed_silence_s(text, None, FAST) == 0.096


@pytest.mark.parametrize(
    "text",
    ["Tell me more.", "Hello there.", "One.", "On Sunday.", "Play some music."],
)
def test_requests_and_answers_are_no_statements(text: str) -> None:
    assert text_score(text) == 0.85


@pytest.mark.parametrize(
    "text",
    [
        "I would like tea and",
        "I would like tea and.",
        "Um",
        "Put it on the",
        "Is this the?",
        "Is this my?",
        "It is",
        "Could you play something by?",
        "Can you?",
        "can you",
        "If you look at the map.",
        "And when I get home",
        "bread, milk,",
        "well…",
        "well...",
        "My number is 555 01",
        "My number is 555-0123.",
        "My name is J O H N",
        "It is spelled m-a-i",
        "That is K, E,",
        "That is K, E, L.",
        "The code is 41.",
        "My account ends in 66.",
        "It was her.",
        "I saw that the warranty is",
        "How long the warranty is and",
    ],
)
def test_an_open_end_asks_for_time(text: str) -> None:
    """Conjunctions, fillers, half a telephone number, spelling, a clause that announces another: nobody has
    finished there, whatever mark the recogniser sets."""
    assert is_open(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "...",
        "Turn on the light.",
        "What is that for?",
        "Which book would you give her?",
        "Let us see what you gave her.",
        "I wanted to ask how long the warranty is.",
        "Tell me where the next petrol station is.",
        "I forgot what my password was.",
        "I know what it is",
        "I know where they are.",
        "I have 12",
        "The number is in my order.",
        "My code has changed 3 times.",
        "It is platform number 5.",
        "I would like to order 12.",
        "Call 0123 456 789",
        "When I get home, turn on the light.",
        "When does the shop open?",
        "Can you swim?",
    ],
)
def test_what_is_whole_asks_for_none(text: str) -> None:
    assert not is_open(text)


@pytest.mark.parametrize(
    ("text", "completeness", "silence_s"),
    [
        ("Turn on the light.", None, 0.096),
        ("Turn on the light.", 1.0, 0.096),
        ("Turn on the light.", UNFINISHED, 0.096),
        ("Turn on the light.", 0.049, 1.4),
        ("Turn on the light.", 0.0, 1.4),
        ("turn on the light", None, 0.640),
        ("turn on the light", 0.9, 0.640),
        ("turn on the light", 0.0, 1.4),
        ("I would like tea and.", 0.99, 1.4),
        ("My number is 555.", 0.99, 1.4),
        ("", None, 0.640),
    ],
)
def test_a_turn_model_can_only_lengthen_the_wait(text: str, completeness: float | None, silence_s: float) -> None:
    """Where it is certain that the speaker has not finished; else the words go alone."""
    assert needed_silence_s(text, completeness, FAST) == silence_s


@pytest.mark.parametrize(
    ("point", "by_words_s", "left_s", "worth"),
    [
        (FAST, 0.096, 0.064, False),  # it comes too late
        (FAST, 0.640, 0.608, True),
        (FAST, 1.4, 1.368, False),  # it changes nothing
        (BALANCED, 0.256, 0.224, True),
        (BALANCED, 0.256, 0.09, False),
        (SAFE, 1.376, 1.344, False),
    ],
)
def test_a_question_must_have_time_and_matter(
    point: Patience, by_words_s: float, left_s: float, worth: bool
) -> None:
    """A tenth of a second for the answer, and as much for it to add."""
    assert is_worth_asking(by_words_s, left_s, point) is worth


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.text(max_size=60), st.floats(0, 1), st.sampled_from(sorted(OPERATING_POINTS)))
def test_no_score_makes_a_turn_end_sooner(text: str, score: float, point: str) -> None:
    """Whatever was heard."""
    patience = OPERATING_POINTS[point]
    assert needed_silence_s(text, score, patience) >= needed_silence_s(text, None, patience)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.text(max_size=60),
    st.none() | st.floats(0, 1),
    st.sampled_from(sorted(OPERATING_POINTS)),
)
def test_the_wait_is_bounded_whatever_is_heard(text: str, score: float | None, point: str) -> None:
    """At least three frames at the fast point's best, at most the hard cap, for any text at all."""
    assert 0.096 <= needed_silence_s(text, score, OPERATING_POINTS[point]) <= HARD_CAP_S


@pytest.mark.parametrize(
    ("quiet_s", "text", "completeness", "point", "enough"),
    [
        (0.096, "What is it?", None, "fast", True),
        (0.09, "What is it?", None, "fast", False),
        (9.0, "What is it", None, "fast", False),
        (9.0, "I wanted to ask about my.", None, "fast", False),
        (9.0, "What is it?", UNFINISHED / 2, "fast", False),
        (9.0, "What is it?", None, "balanced", False),
        (9.0, "What is it?", None, "safe", False),
    ],
)
def test_quiet_ends_what_looks_finished_at_the_fast_point(
    quiet_s: float, text: str, completeness: float | None, point: str, enough: bool
) -> None:
    assert is_quiet_enough(quiet_s, text, completeness, OPERATING_POINTS[point]) is enough


def test_a_speaker_who_was_cut_off_gets_more_quiet_too() -> None:
    speaker = Speaker(OPERATING_POINTS["fast"])
    speaker.on_false_start("What is it?", 0.12)
    assert speaker.patience.quiet_s == pytest.approx(1.2 * 0.12)
