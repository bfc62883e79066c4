"""Each pair: as it is written, as it goes to the phonemiser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.engines.spoken import CURRENCIES, UNITS, speakable

MONEY = {
    "$5.50": "5 dollars and 50 cents",
    "$1": "1 dollar",
    "$1.01": "1 dollar and 1 cent",
    "$0.99": "99 cents",
    "$5.00": "5 dollars",
    "$1,234.56": "1,234 dollars and 56 cents",
    "It costs $5.": "It costs 5 dollars.",
    "$3 million": "3 million dollars",
    "$2.5M": "2.5 million dollars",
    "$5-10 each": "5 to 10 dollars each",
    "$5-$10": "5 to 10 dollars",
    "€20": "20 euros",
    "£3.20": "3 pounds and 20 pence",
    "¥1.5": "1.5 yen",
    "US$5": "5 dollars",
}
TIMES = {
    "3:45": "3 45",
    "3:45 pm": "3 45 PM",
    "at 3:45 p.m. today": "at 3 45 PM today",
    "At 3:45 p.m. We left.": "At 3 45 PM. We left.",
    "until 3 p.m.": "until 3 PM.",
    "at 3 p.m. we": "at 3 PM we",
    "12:00": "12 o'clock",
    "12:00 pm": "12 PM",
    "7:05": "7 oh 5",
    "10:30-11:30": "10 30 to 11 30",
    "16:9": "16:9",
    "2024-01-15": "January 15, 20 24",
    "9/11/2001": "9 11 2001",
    "Jan. 5": "January 5",
    "Sept 5, 1984": "September 5, 19 84",
    "May 1999": "May 19 99",
}
NUMBERS = {
    "1,234": "1,234",
    "3.14": "3.14",
    "5-10": "5 to 10",
    "pages 5–10": "pages 5 to 10",
    "5 - 3": "5 minus 3",
    "1990-1995": "19 90 to 19 95",
    "from 1990 to 1995": "from 19 90 to 19 95",
    "in 1984": "in 19 84",
    "In 1905, he": "In 19 oh 5, he",
    "in 1900": "in 19 hundred",
    "since 2005": "since 2005",
    "in 2024.": "in 20 24.",
    "2024 people": "2024 people",
    "in 1500,50": "in 1500,50",
    "the 1990s": "the 19 nineties",
    "the '90s": "the nineties",
    "the 2000s": "the two thousands",
    "the 1800s": "the 18 hundreds",
    "1/2": "a half",
    "1/8": "an eighth",
    "3/4 of it": "3 quarters of it",
    "1 1/2 cups": "1 and a half cups",
    "1½ cups": "1 and a half cups",
    "½ cup": "a half cup",
    "9/10": "9 out of 10",
    "24/7": "24 7",
    "v1.2.3": "version 1 point 2 point 3",
    "192.168.1.1": "192 point 168 point 1 point 1",
    "555-123-4567": "5 5 5, 1 2 3, 4 5 6 7",
    "(555) 123-4567.": "5 5 5, 1 2 3, 4 5 6 7.",
    "+1 555 123 4567": "plus 1, 5 5 5, 1 2 3, 4 5 6 7",
    "1-800-555-1234": "1, 8 0 0, 5 5 5, 1 2 3 4",
    "call 18005551234": "call 1 8 0 0 5 5 5 1 2 3 4",
    "No. 5": "number 5",
    "No. I do not.": "No. I do not.",
    "#1": "number 1",
    "10-year": "10-year",
    "COVID-19": "COVID-19",
}
MEASURES = {
    "10km/h": "10 kilometers per hour",
    "1 kg": "1 kilogram",
    "2.5 kg": "2.5 kilograms",
    "20°C": "20 degrees Celsius",
    "-5 °C": "-5 degrees Celsius",
    "5-10 km": "5 to 10 kilometers",
    "20 m²": "20 square meters",
    "16 GB": "16 gigabytes",
    "5 in a row": "5 in a row",
    "5 minutes": "5 minutes",
    "50%": "50%",
    "~5": "about 5",
    "10x": "10 times",
    "3 x 4": "3 times 4",
    "5*3": "5 times 3",
    "2^3": "2 to the power of 3",
    "10 < 20": "10 is less than 20",
    "x >= 3": "x is at least 3",
    "2+2=4": "2+2=4",
    "x²": "x squared",
}
WORDS = {
    "Dr. Smith met Mr. Bean.": "Doctor Smith met Mister Bean.",
    "fruit, e.g. apples": "fruit, for example, apples",
    "e.g., this": "for example, this",
    "and so on, etc.": "and so on, etc.",
    "us vs. them": "us versus them",
    "Main St. is closed": "Main Street is closed",
    "Visit St. Louis": "Visit Saint Louis",
    "the U.S. is": "the US is",
    "in the U.S.": "in the U.S.",
    "R&B": "R&B",
    "and/or": "and or",
    "he/she": "he or she",
    "I/O": "I O",
    "C#": "C sharp",
    "NASA HTML API": "NASA HTML API",
    "STOP IT NOW": "Stop it now",
    "AI IS": "AI IS",
    "bob@example.com": "bob at example dot com",
    "See https://www.example.com/path?x=1.": "See example dot com slash path.",
    "don’t": "don't",
}
MARKS = {
    "**bold** and *it* and `code`": "bold and it and code",
    "snake_case": "snake case",
    "# Title\n- one\n- two": "Title. one. two",
    "one,\ntwo": "one, two",
    "[a link](http://x.y/z)": "a link",
    "Hi 👋🏽!": "Hi!",
    "well... ok": "well, ok",
    "well…": "well.",
    "Really?!": "Really?",
    "Wow!!!": "Wow!",
    "Wait -- what": "Wait, what",
    "a - b": "a, b",
    "this → that": "this, that",
    "[[ha]]": "ha",
}
PAIRS = MONEY | TIMES | NUMBERS | MEASURES | WORDS | MARKS


@pytest.mark.parametrize(("written", "said"), PAIRS.items())
def test_english(written: str, said: str) -> None:
    assert speakable(written) == said


@pytest.mark.parametrize("said", sorted({s for s in PAIRS.values() if s not in PAIRS}))
def test_what_is_already_said_stays_as_it_is(said: str) -> None:
    assert speakable(said) == said


@pytest.mark.parametrize(
    "text",
    [
        "Sure, I can help with that.",
        "No, I don't think so: it's too late; sorry!",
        'He said "yes" (twice).',
        "It's 5 o'clock, and 3 of 10 are here.",
        "A well-known mother-in-law.",
    ],
)
def test_plain_text_is_left_alone(text: str) -> None:
    assert speakable(text) == text


@pytest.mark.parametrize("text", ["", "  \n", "...", "?!", "😀👍🏽", "—", "**", "***", "- ", "\u200d"])
def test_nothing_to_say_is_empty(text: str) -> None:
    assert speakable(text) == ""


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_has_one_and_many(unit: str) -> None:
    one, many = UNITS[unit]
    assert speakable(f"1 {unit}") == f"1 {one}"
    assert speakable(f"2 {unit}, or") == f"2 {many}, or"


@pytest.mark.parametrize("sign", CURRENCIES)
def test_every_currency_is_named_after_its_amount(sign: str) -> None:
    assert speakable(f"{sign}20") == f"20 {CURRENCIES[sign][1]}"


@pytest.mark.parametrize("language", ["de", "fr-fr", "zh"])
def test_other_languages_lose_only_what_is_never_said(language: str) -> None:
    assert speakable("**Um** 3:45 für €5,50 😀", language=language) == "Um 3:45 für €5,50"


def test_a_language_tag_may_name_a_region() -> None:
    assert speakable("$5", language="en-GB") == "5 dollars"


@given(st.text(max_size=200))
def test_any_text_can_be_said(text: str) -> None:
    said = speakable(text)
    assert said == said.strip()
    assert said == "" or any(c.isalnum() for c in said)
    assert "\n" not in said
    assert "[[" not in said


@given(st.text(alphabet="0123456789.,:-/$€%° kmx'()+~#aAp", max_size=60))
def test_any_heap_of_figures_can_be_said(text: str) -> None:
    assert "$" not in speakable("$5 " + text)[:5]
