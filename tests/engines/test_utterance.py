import pytest

from voicepipe.engines.hypothesis import split_words
from voicepipe.engines.utterance import TimedWord, Utterance, common_prefix, forced_points, match_length


def timed(text: str, step_s: float = 0.4) -> list[TimedWord]:
    return [TimedWord(word, (n + 1) * step_s) for n, word in enumerate(split_words(text))]


def heard(utterance: Utterance, *texts: str) -> None:
    for text in texts:
        utterance.on_partial(split_words(text))


def test_the_common_prefix_is_counted_in_words() -> None:
    assert common_prefix(["a", "b", "c"], ["a", "b", "d", "c"]) == 2
    assert common_prefix([], ["a"]) == 0


@pytest.mark.parametrize(
    ("known", "words", "length"),
    [
        ("a b", "a b c", 2),
        ("a b", "x a b c", 3),
        ("a b", "b c", 1),
        ("", "a b", 0),
        ("were all going direct", "we all go in direct to heaven", 5),
        ("a b", "", 0),
    ],
)
def test_known_words_are_found_again_in_a_hypothesis(known: str, words: str, length: int) -> None:
    assert match_length(known.split(), words.split()) == length


# --- LocalAgreement-2 -------------------------------------------------------------------------------------


def test_a_word_is_stable_once_two_hypotheses_agree_on_it_and_it_is_not_the_last() -> None:
    utterance = Utterance()
    heard(utterance, "What is the")
    assert (utterance.stable, utterance.tentative) == ("", "What is the")
    heard(utterance, "what is the capital")
    assert (utterance.stable, utterance.tentative) == ("what is the", "capital")
    heard(utterance, "What is the capital")
    assert (utterance.stable, utterance.tentative) == ("what is the", "capital")
    heard(utterance, "What is the capital of")
    assert (utterance.stable, utterance.tentative) == ("what is the capital", "of")


def test_stable_text_is_never_changed_by_a_partial() -> None:
    utterance = Utterance()
    heard(utterance, "we will go", "we will go to", "We'll go to the sea", "We'll go to the sea now")
    assert utterance.stable == "we will go to the sea"
    assert utterance.tentative == "now"


def test_what_a_guard_cut_is_shown_and_never_commits() -> None:
    utterance = Utterance()
    heard(utterance, "tell me")
    utterance.on_rejected(split_words("tell me a joke"))
    assert (utterance.stable, utterance.tentative) == ("", "tell me a joke")
    heard(utterance, "tell me a joke about")
    assert utterance.stable == ""
    heard(utterance, "tell me a joke about")
    assert utterance.stable == "tell me a joke"


def test_a_rejected_hypothesis_leaves_what_is_stable() -> None:
    utterance = Utterance()
    heard(utterance, "tell me a", "tell me a")
    utterance.on_rejected(())
    assert (utterance.stable, utterance.tentative) == ("tell me", "")


def test_a_final_replaces_the_window_and_speech_may_go_on() -> None:
    utterance = Utterance()
    heard(utterance, "what is a", "what is a")
    utterance.on_final(split_words("What was the"))
    assert utterance.text == "What was the"
    heard(utterance, "What was the name of")
    assert utterance.stable == "What was the"
    assert utterance.text == "What was the name of"


def test_a_final_may_be_shorter_than_what_was_stable() -> None:
    utterance = Utterance()
    heard(utterance, "one two three four", "one two three four")
    utterance.on_final(split_words("one two"))
    assert utterance.text == "one two"


# --- cutting the window -----------------------------------------------------------------------------------


def long_utterance() -> Utterance:
    utterance = Utterance()
    heard(utterance, "I sold my car. Carrying it was hard for", "I sold my car. Carrying it was hard for me")
    assert utterance.stable == "I sold my car. Carrying it was hard for"
    return utterance


def test_it_wants_a_cut_once_a_stable_sentence_lies_behind() -> None:
    utterance = Utterance()
    heard(utterance, "I sold my car.", "I sold my car.")
    assert not utterance.wants_cut()
    assert long_utterance().wants_cut()


def test_the_last_two_words_are_no_cut_points() -> None:
    utterance = long_utterance()
    assert utterance.cut_points(timed("I sold my car. Carrying it was hard for me")) == list(range(1, 9))


def test_words_behind_a_cut_must_be_the_same_on_both_sides() -> None:
    utterance = long_utterance()
    assert utterance.cut_points(timed("I sold my cart. Carrying it was hard for me")) == list(range(4, 9))


def test_released_words_stay_in_front_of_what_the_shorter_window_says() -> None:
    utterance = long_utterance()
    utterance.release(timed("I sold my car. Carrying it was hard for me"), 4)
    heard(utterance, "Carrying it was hard for me today")
    assert utterance.text == "I sold my car. Carrying it was hard for me today"
    utterance.on_final(split_words("Carrying it was too hard for me today."))
    assert utterance.text == "I sold my car. Carrying it was too hard for me today."


def test_remains_of_a_released_word_go() -> None:
    utterance = long_utterance()
    utterance.release(timed("I sold my car. Carrying it was hard for me"), 4)
    utterance.on_final(split_words("car. Carrying it was hard for me"))
    assert utterance.text == "I sold my car. Carrying it was hard for me"


def test_a_first_word_that_the_cut_damaged_comes_back() -> None:
    utterance = long_utterance()
    utterance.release(timed("I sold my car. Carrying it was hard for me"), 4)
    utterance.on_final(split_words("it was hard for me"))
    assert utterance.text == "I sold my car. Carrying it was hard for me"


def test_a_word_said_twice_stays_twice() -> None:
    utterance = Utterance()
    heard(utterance, "that is what I said that that is true", "that is what I said that that is true for")
    utterance.release(timed("that is what I said that that is true for"), 6)
    utterance.on_final(split_words("that is true for all"))
    assert utterance.text == "that is what I said that that is true for all"


def test_a_full_window_is_cut_although_nothing_agrees() -> None:
    utterance = Utterance()
    heard(utterance, "one two three four five")
    words = timed("one two three four five")
    utterance.release(words, max(forced_points(words, window_s=2.0)))
    heard(utterance, "four five six")
    assert utterance.text == "one two three four five six"


def test_words_before_a_long_pause_are_whole() -> None:
    assert forced_points(timed("so it is"), window_s=10.0) == [1, 2, 3]
    assert forced_points(timed("so it is"), window_s=1.5) == [1]
    assert forced_points([], window_s=10.0) == []


def test_an_emptied_window_keeps_what_was_stable() -> None:
    utterance = Utterance()
    heard(utterance, "keep this", "keep this la")
    utterance.release_all()
    heard(utterance, "and this")
    assert utterance.text == "keep this and this"
