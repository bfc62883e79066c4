import math

import pytest

from voicepipe.engines.hypothesis import (
    Evidence,
    compression_ratio,
    ends_sentence,
    join_words,
    judge,
    loop_end,
    normalise,
    split_words,
    word_ends,
)


def evidence(
    text: str,
    *,
    tokens: int | None = None,
    cap: int = 100,
    speech_s: float = 3.0,
    avg_logprob: float = -0.2,
    no_speech: float = 0.05,
) -> Evidence:
    count = len(text.split()) + 1 if tokens is None else tokens
    return Evidence(text, count, cap, speech_s, avg_logprob, no_speech)


def folded(text: str) -> list[str]:
    return [normalise(word) for word in split_words(text)]


# --- words ------------------------------------------------------------------------------------------------


def test_joining_the_words_gives_the_text_back() -> None:
    text = "What's the weather, in  Berlin?"
    assert join_words(split_words(text)) == text


def test_scripts_without_spaces_count_every_character_as_a_word() -> None:
    assert split_words("今日は rain") == ["今", "日", "は", " rain"]


def test_annotations_are_no_words() -> None:
    assert split_words("[Music] (laughs) *sigh* ♪♪") == []


def test_word_ends_count_the_characters_of_the_whole_text() -> None:
    text = " Hello [Music] there."
    ends = word_ends(text)
    assert len(ends) == len(split_words(text))
    assert [text[:end].split()[-1] for end in ends] == ["Hello", "there."]


@pytest.mark.parametrize(("word", "same"), [(" Ten", "10"), ("“It's,", "its"), ("TWENTY.", "20"), ("...", "")])
def test_case_punctuation_and_number_form_are_folded(word: str, same: str) -> None:
    assert normalise(word) == same


def test_a_car_is_not_a_carrying() -> None:
    assert normalise(" car") != normalise(" carrying")


@pytest.mark.parametrize(("word", "yes"), [("way.", True), ('way."', True), ("way,", False), ("way", False)])
def test_sentences_end_in_a_stop(word: str, yes: bool) -> None:
    assert ends_sentence(word) is yes


# --- loops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a joke about cats. a joke about cats. a joke about cats.", "a joke about cats"),
        ("so a joke about cats. a joke about cats. a joke about cats. a joke", "so a joke about cats"),
        ("no no no no no no", "no"),
        ("and show up and show up and show up and", "and show up"),
    ],
)
def test_a_loop_is_found_up_to_the_end_of_its_first_round(text: str, kept: str) -> None:
    words = folded(text)
    end = loop_end(words, capped=False)
    assert end is not None
    assert words[:end] == folded(kept)


@pytest.mark.parametrize(
    "text",
    [
        "no, no, no",
        "my number is five five five",
        "It was the best of times, it was the worst of times. It was the age of wisdom, it was the age of",
        "Do you hear me? Yes. Do you hear me?",
        "That's a good story. That's a good story.",
        "",
        "yes",
    ],
)
def test_what_people_repeat_is_no_loop(text: str) -> None:
    assert loop_end(folded(text), capped=False) is None


def test_a_decode_that_ran_into_its_cap_needs_less_to_count_as_a_loop() -> None:
    words = folded("tell me a joke. tell me a joke.")
    assert loop_end(words, capped=True) == 4
    assert loop_end(words, capped=False) is None


def test_a_loop_is_cut_and_named() -> None:
    judged = judge(evidence("Tell me a joke about cats. a joke about cats. a joke about cats. a joke"))
    assert (join_words(judged.words), judged.rejected) == ("Tell me a joke about cats.", "repetition")


def test_repetition_without_a_loop_at_the_tail_empties_the_hypothesis() -> None:
    text = "ha ha hu " * 20 + "and so it ends today my friend"
    assert compression_ratio(text) > 2.4
    assert judge(evidence(text, speech_s=60.0)).rejected == "repetition"


def test_ordinary_text_hardly_compresses() -> None:
    assert compression_ratio("What time does the next train to London leave?") < 1.2
    assert compression_ratio("") == 0.0


# --- the other guards -------------------------------------------------------------------------------------


def test_a_plain_sentence_is_believed() -> None:
    judged = judge(evidence(" What is the capital of France?"))
    assert (join_words(judged.words), judged.rejected) == ("What is the capital of France?", None)


@pytest.mark.parametrize(
    ("case", "guard"),
    [
        (evidence("hello there", avg_logprob=math.nan), "not_finite"),
        (evidence("hello there", no_speech=math.inf), "not_finite"),
        (evidence(" ."), "empty"),
        (evidence("[Music]"), "empty"),
        (evidence("hello there my friend", no_speech=0.7, avg_logprob=-0.9), "no_speech"),
        (evidence("hello there my friend", avg_logprob=-1.3), "unsure"),
        (evidence("hello", tokens=1, avg_logprob=-2.1), "unsure"),
        (evidence("all this in no time at all", tokens=20, speech_s=1.0), "rate"),
        (evidence(" Thank you.", speech_s=0.4, avg_logprob=-0.7), "boilerplate"),
        (evidence(" Thanks for watching!", no_speech=0.4), "boilerplate"),
        (evidence(" I'll see you next time.", no_speech=0.4), "boilerplate"),
    ],
)
def test_a_guard_empties_the_hypothesis(case: Evidence, guard: str) -> None:
    judged = judge(case)
    assert (judged.words, judged.rejected) == ((), guard)


@pytest.mark.parametrize(
    "case",
    [
        evidence(" Thank you.", speech_s=0.6, avg_logprob=-0.3),
        evidence(" Thank you.", speech_s=1.4, avg_logprob=-0.7),
        evidence(" Yes", tokens=1, speech_s=0.3, avg_logprob=-1.6, no_speech=0.45),
        evidence(" Thank you for the flowers.", speech_s=0.9, avg_logprob=-0.7, no_speech=0.4),
    ],
)
def test_people_do_say_short_things(case: Evidence) -> None:
    assert judge(case).rejected is None
