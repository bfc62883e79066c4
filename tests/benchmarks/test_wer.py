import pytest

from benchmarks.wer import corpus_wer, count_errors, fold


def test_case_and_punctuation_are_no_errors() -> None:
    assert corpus_wer([("What's the time?", "whats the TIME")]).rate == 0.0


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("twenty-five", ["2", "5"]),
        ("25", ["2", "5"]),
        ("twenty and five", ["2", "0", "and", "5"]),
        ("fourteen twenty", ["1", "4", "2", "0"]),
        ("555-1234", list("5551234")),
        ("five five five one two three four", list("5551234")),
        ("at ten", ["at", "1", "0"]),
        ("", []),
    ],
)
def test_numbers_are_folded_to_digits(text: str, folded: list[str]) -> None:
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("heard", "errors"),
    [
        ("a b c", (0, 0, 0)),
        ("a x c", (1, 0, 0)),
        ("a c", (0, 1, 0)),
        ("a b b c", (0, 0, 1)),
        ("", (0, 3, 0)),
    ],
)
def test_errors_are_told_apart(heard: str, errors: tuple[int, int, int]) -> None:
    assert count_errors(["a", "b", "c"], heard.split()) == errors


def test_the_rate_is_over_the_corpus_and_not_a_mean_of_rates() -> None:
    wer = corpus_wer(
        [("one two three four five six seven eight", "one two three four five six seven eight"), ("go", "no")]
    )
    assert (wer.words, wer.errors) == (9, 1)
    assert wer.rate == pytest.approx(1 / 9)


def test_words_heard_in_silence_are_hallucinations_and_no_rate() -> None:
    wer = corpus_wer([("", "thank you")])
    assert (wer.hallucinated, wer.words, wer.rate) == (2, 0, 0.0)
