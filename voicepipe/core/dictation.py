"""Is what was dictated whole? Numbers and spellings come in groups with pauses between them, and no group sounds
unfinished. What they are the number of tells how many digits there will be; a name that was said tells how it is
spelled.
"""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(?:\d[\d\s\-,.]*)$")
_NUMBERED = re.compile(r"(?i)\b(?:numbers?|phone|account|extension|reference)\b")
"""What is told by digits: two of them are hardly all."""
_WHOLE = (
    (re.compile(r"(?i)\b(?:end(?:s|ed|ing)? (?:in|with)|last four(?: digits)?|pin)\b"), 4),
    (re.compile(r"(?i)\b(?:zip|postcode)\b"), 5),
    (re.compile(r"(?i)\bcodes?\b"), 6),
)
"""How many digits are all, where these words come before: the first that do. Cards and accounts are told apart by
their last four, as PINs have; codes that are sent have six."""
LONGEST = 10
"""Digits that are all whatever they are: a telephone number."""
_SPELLED = re.compile(r"(?i)(?:^|[\s\-])([a-z](?:[\s\-,]+[a-z])+)$")
_WORD = re.compile(r"[\w']+")


def is_half_dictated(text: str) -> bool:
    """Does it end within a number or a spelling, as far as can be told? `text` without marks at its end."""
    return _is_half_a_number(text) or _is_half_a_spelling(text)


def _is_half_a_number(text: str) -> bool:
    found = _DIGITS.search(text)
    if found is None:
        return False
    told = next((digits for words, digits in _WHOLE if words.search(text)), None)
    least = 2 if told or _NUMBERED.search(text) else 3
    whole = told or LONGEST
    return least <= len(re.sub(r"\D", "", found.group())) < whole


def _is_half_a_spelling(text: str) -> bool:
    found = _SPELLED.search(text)
    if found is None:
        return False
    spelled = re.sub(r"[^a-z]", "", found.group(1).lower())
    return spelled not in _WORD.findall(text[: found.start(1)].lower())
