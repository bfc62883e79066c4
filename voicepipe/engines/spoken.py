"""Text as it is written -> text as it is said, before it goes to a text-to-speech engine.

The phonemiser behind most voices (espeak-ng) reads "50%", "R&B", "1,234" and "API" well. What is here is what
it gets wrong: "$5.50" ("dollar five point five zero"), "10km/h" ("kay em slash aitch"), "Dr. Smith" (a full
stop after "doctor"), "5-10" ("five dash ten"), "~5" ("tilde five"), an emoji (its name), "!?" ("exclamation"),
and the Markdown that language models write. English only; in other languages only what is nowhere said aloud
(emoji, Markdown) is removed. Pure functions of strings; every pattern is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match

Rule = tuple[re.Pattern[str], str | Callable[[Match[str]], str]]

NUMBER = r"\d[\d,]*(?:\.\d+)?"
"""1, 1,234 or 3.14."""

MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
YEAR = re.compile(r"1[1-9]\d\d|20\d\d")

UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"),
    "km/s": ("kilometer per second", "kilometers per second"),
    "m/s": ("meter per second", "meters per second"),
    "km²": ("square kilometer", "square kilometers"),
    "m²": ("square meter", "square meters"),
    "m³": ("cubic meter", "cubic meters"),
    "ft²": ("square foot", "square feet"),
    "sq ft": ("square foot", "square feet"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "m": ("meter", "meters"),
    "ft": ("foot", "feet"),
    "mi": ("mile", "miles"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "L": ("liter", "liters"),
    "tsp": ("teaspoon", "teaspoons"),
    "tbsp": ("tablespoon", "tablespoons"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "ms": ("millisecond", "milliseconds"),
    "sec": ("second", "seconds"),
    "secs": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "yr": ("year", "years"),
    "yrs": ("year", "years"),
    "KB": ("kilobyte", "kilobytes"),
    "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "V": ("volt", "volts"),
    "dB": ("decibel", "decibels"),
}
"""Unit after a number: how one and how several are said. "in", "s" and "h" are words too, so not here."""

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
MAGNITUDES = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion", "T": "trillion"}

ABBREVIATIONS = {
    "Dr.": "Doctor",
    "Mr.": "Mister",
    "Mrs.": "Missus",
    "Ms.": "Miz",
    "Prof.": "Professor",
    "St.": "Saint",
    "Mt.": "Mount",
    "Sgt.": "Sergeant",
    "Capt.": "Captain",
    "Gen.": "General",
    "Sen.": "Senator",
    "Rep.": "Representative",
    "Gov.": "Governor",
    "vs.": "versus",
    "approx.": "approximately",
    "e.g.": "for example,",
    "i.e.": "that is,",
    "a.k.a.": "also known as",
    "w/o": "without",
    "w/": "with",
    "b/c": "because",
}
"""Abbreviations with a word after them, so that their full stop ends nothing."""

PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth"}
VULGAR = {"½": "a half", "¼": "a quarter", "¾": "three quarters", "⅓": "a third", "⅔": "two thirds"}
DECADES = [
    *("hundreds", "tens", "twenties", "thirties", "forties"),
    *("fifties", "sixties", "seventies", "eighties", "nineties"),
]
SMALL_WORDS = frozenset(("AND", "ARE", "DO", "FOR", "IS", "IT", "NOT", "OF", "THE", "TO", "YOU"))
"""Words that show, in capitals among capitals, that somebody shouts and no acronym is meant."""


def speakable(text: str, *, language: str = "en") -> str:
    """`text` as it should be said; "" if it holds nothing that can be.

    `language` is a tag such as "en-us". Line breaks become spaces or full stops.
    """
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    if language.split("-")[0].lower() == "en":
        for pattern, replacement in ENGLISH:
            text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    return text if any(c.isalnum() for c in text) else ""


# --- what a match becomes -----------------------------------------------------------------------


def _counted(number: str, one: str, many: str) -> str:
    return f"{number} {one if number == '1' else many}"


def _unit(match: Match[str]) -> str:
    return _counted(match["number"], *UNITS[match["unit"]])


def _money(match: Match[str]) -> str:
    """ "$1,234.56" -> "1,234 dollars and 56 cents"; "$5M" -> "5 million dollars"."""
    one, many, cent, cents = CURRENCIES[match["sign"]]
    whole, part, size = match["whole"], match["part"], match["size"]
    if size:
        amount = f"{whole}.{part}" if part else whole
        return f"{amount} {MAGNITUDES.get(size, size)} {many}"
    if part is None:
        return _counted(whole, one, many)
    if len(part) != 2 or not cent:
        return f"{whole}.{part} {many}"
    small = _counted(str(int(part)), cent, cents)
    if int(part) == 0:
        return _counted(whole, one, many)
    return small if whole == "0" else f"{_counted(whole, one, many)} and {small}"


def _clock(match: Match[str]) -> str:
    """ "7:05" -> "7 oh 5"; "12:00" -> "12 o'clock"; "3:45 p.m." -> "3 45 PM"."""
    hour, minute = str(int(match["hour"])), match["minute"]
    half = match["half"]
    said = hour
    if minute != "00":
        said += f" oh {minute[1]}" if minute[0] == "0" else f" {minute}"
    elif not half:
        said += " o'clock"
    end = "" if match["end"] is None else f".{match['end']}"
    return f"{said} {half.upper()}M{end}" if half else said


def _iso_date(match: Match[str]) -> str:
    return f"{MONTHS[int(match[2]) - 1]} {int(match[3])}, {_year(match[1])}"


def _month(match: Match[str]) -> str:
    return next(month for month in MONTHS if month.startswith(match[1]))


def _cued_year(match: Match[str]) -> str:
    """ "in 1984", "May 5, 1984": what stands before it says that it is a year."""
    return f"{match[1]}{match[2]}{_year(match[3])}"


def _year(digits: str) -> str:
    """ "1984" -> "19 84", "1905" -> "19 oh 5"; 2000 to 2009 are plain numbers."""
    century, rest = digits[:2], digits[2:]
    if digits.startswith("200"):
        return digits
    if rest == "00":
        return f"{century} hundred"
    return f"{century} oh {rest[1]}" if rest[0] == "0" else f"{century} {rest}"


def _decade(match: Match[str]) -> str:
    """ "1990s" -> "19 nineties", "2000s" -> "two thousands"."""
    century, name = match["century"] or "", DECADES[int(match["tens"])]
    if match["tens"] == "0":
        return "two thousands" if century == "20" else f"{century} hundreds"
    return f"{century} {name}".strip()


def _digits(match: Match[str]) -> str:
    """Digit by digit, with a breath where the writer left a gap."""
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(" ".join(group) for group in re.findall(r"\d+", match[0]))


def _range(match: Match[str]) -> str:
    low, high = match[1], match[2]
    if YEAR.fullmatch(low) and YEAR.fullmatch(high):
        low, high = _year(low), _year(high)
    return f"{low} to {high}"


def _fraction(match: Match[str]) -> str:
    """ "3/4" -> "3 quarters", "1 1/2" -> "1 and a half", "24/7" -> "24 7"."""
    whole, above, below = match["whole"], int(match["above"]), int(match["below"])
    if below not in PARTS or above >= below:
        return match[0].replace("/", " out of " if 0 < above <= below else " ")
    article = "an" if below == 8 else "a"
    said = f"{article} {PARTS[below]}" if above == 1 else f"{above} {PARTS[below]}s"
    return f"{whole} and {said}" if whole else said


SIGNS_IN_ADDRESSES = (
    ("@", " at "), (".", " dot "), ("/", " slash "), ("-", " dash "), ("_", " underscore "),
    ("+", " plus "),
)  # fmt: skip


def _address(text: str) -> str:
    for sign, said in SIGNS_IN_ADDRESSES:
        text = text.replace(sign, said)
    return text


def _link(match: Match[str]) -> str:
    """ "https://www.example.com/path?x=1" -> "example dot com slash path"."""
    address = match["address"]
    kept = address.rstrip(".,;:!?")
    return _address(re.split(r"[?#]", kept)[0].rstrip("/")) + address[len(kept) :]


def _email(match: Match[str]) -> str:
    return _address(match[0])


def _shouted(match: Match[str]) -> str:
    words = match[0].split()
    return match[0].capitalize() if SMALL_WORDS.intersection(words) else match[0]


def _vulgar(match: Match[str]) -> str:
    return f"{match[1]} and {VULGAR[match[2]]}" if match[1] else VULGAR[match[2]]


# --- the rules, in the order in which they are applied ----------------------------------------


def _rule(pattern: str, said: str | Callable[[Match[str]], str], flags: int = 0) -> Rule:
    return re.compile(pattern, flags), said


_EMOJI = (
    "\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2300-\u23ff\u200d\u20e3\ufe0e\ufe0f\U000e0020-\U000e007f™®©"
)
_MONTH = rf"(?:{'|'.join(MONTHS)})"
_SIGN = f"[{''.join(CURRENCIES)}]"
_UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_ABBREVIATION = "|".join(re.escape(short) for short in ABBREVIATIONS)
_YEAR_CUE = (
    "in|since|from|to|until|till|before|after|during|circa|year|early|late|mid|summer|spring|fall|autumn|winter"
)
_NO_QUANTITY = r"(?!\w|[.,:/%-]\d|%| ?[-–])"

MARKUP: tuple[Rule, ...] = (
    _rule(r"```[^`\n]*|`|~~|\||\\", " "),
    _rule(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]{1,500}\)", r"\1"),
    _rule(r"^[ \t]{0,8}(?:#{1,6}|[-*•]|>)[ \t]+", "", re.MULTILINE),
    _rule(r"\*\*|__|(?<![\w*])[*_](?=\w)|(?<=[\w.,!?])[*_](?![\w*])", ""),
    _rule(r"\[\[|\]\]", " "),  # Piper would read what is between them as raw phonemes
    _rule(f"[{_EMOJI}]+", " "),
    _rule(r"(?<=[\w)\"'])[ \t]*\n\s*", ". "),
)

ENGLISH: tuple[Rule, ...] = (
    _rule("[‘’]", "'"),
    # addresses
    _rule(r"\b(?:https?://(?:www\.)?|www\.)(?P<address>[^\s<>()\"']+)", _link),
    _rule(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+", _email),
    # dates and times
    _rule(r"\b(1\d{3}|20\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b", _iso_date),
    _rule(r"\b(\d{1,2})/(\d{1,2})/(\d{4})\b", r"\1 \2 \3"),
    _rule(
        r"\b(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?!:?\d)"
        r"(?: ?(?P<half>[aApP])(?:[mM]\b|\.[mM]\.(?P<end>$| (?=[A-Z]))?))?",
        _clock,
    ),
    _rule(r"(?<=\d) ?([aApP])\.[mM]\.(?=$| [A-Z])", lambda m: f" {m[1].upper()}M."),
    _rule(r"(?<=\d) ?([aApP])\.[mM]\.", lambda m: f" {m[1].upper()}M"),
    _rule(r"\b(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)t?\.?(?= \d{1,2}\b)", _month),
    # telephone numbers, and what is too long to be a quantity
    _rule(
        r"(?<![\w.-])(?:\+?\d{1,3}[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])?\d{3}[ .-]\d{4}"
        r"(?![\w-]|[.,]\d)",
        _digits,
    ),
    _rule(r"(?<![\w.,])\+?\d{10,}(?![.,]?\d)", _digits),
    # money
    _rule(
        rf"(?P<sign>{_SIGN}) ?(?P<low>{NUMBER}) ?[-–] ?{_SIGN}?(?P<high>{NUMBER})(?!\w)",
        lambda m: f"{m['low']} to {m['high']} {CURRENCIES[m['sign']][1]}",
    ),
    _rule(
        rf"(?:\b(?:US|CA|AU|NZ|A|C))?(?P<sign>{_SIGN}) ?(?P<whole>\d{{1,3}}(?:,\d{{3}})+|\d+)"
        r"(?:\.(?P<part>\d+))?(?: ?(?P<size>million|billion|trillion|[kKMBT])\b)?",
        _money,
    ),
    # years
    _rule(r"(?<!\w)'?(?P<century>1[1-9]|20)?(?P<tens>\d)0'?s\b", _decade),
    _rule(rf"\b({_YEAR_CUE})( |-)({YEAR.pattern}){_NO_QUANTITY}", _cued_year, re.IGNORECASE),
    _rule(rf"\b({_MONTH}(?: \d{{1,2}}(?:st|nd|rd|th)?,?)?)( )({YEAR.pattern})\b", _cued_year),
    # versions, ranges, fractions
    _rule(r"\bv(?=\d+\.\d)", "version "),
    _rule(r"\b\d+(?:\.\d+){2,}\b", lambda m: m[0].replace(".", " point ")),
    _rule(rf"(?<![\w.,/-])({NUMBER})(?:-| ?– ?)({NUMBER})(?!\w*-|/)", _range),
    _rule(
        r"(?<![\w/.,])(?:(?P<whole>\d{1,3}) )?(?P<above>\d{1,3})/(?P<below>\d{1,3})(?![\w/])",
        _fraction,
    ),
    _rule(rf"(\d)?([{''.join(VULGAR)}])", _vulgar),
    # units and signs
    _rule(rf"(?<![\d,])(?P<number>{NUMBER})[ -]?(?P<unit>{_UNIT})(?![\w°²³/'])", _unit),
    _rule(r"(?<=\d) ?[xX×] ?(?=\d)|(?<=\d)[xX]\b", " times "),
    _rule(r"\b([ACFG])#(?!\w)", r"\1 sharp"),
    _rule(r"\bC\+\+", "C plus plus"),
    _rule(r"(?:\bNo\.|#) ?(?=\d)", "number "),
    _rule(r"#(?=[A-Za-z])", "hashtag "),
    _rule(rf"[~≈] ?(?={_SIGN}?\d)", "about "),
    _rule(r"(?<=\w)²", " squared"),
    _rule(r"(?<=\w)³", " cubed"),
    _rule(r"(?<=\d) - (?=\d)", " minus "),
    _rule(r"(?<=\d) ?\* ?(?=\d)", " times "),
    _rule(r"(?<=\w)\^(?=\d)", " to the power of "),
    _rule(r"(?<=\w) ?(?:<=|≤) ?(?=\w)", " is at most "),
    _rule(r"(?<=\w) ?(?:>=|≥) ?(?=\w)", " is at least "),
    _rule(r"(?<=\w) < (?=\w)", " is less than "),
    _rule(r"(?<=\w) > (?=\w)", " is greater than "),
    _rule(r" ?(?:→|->|=>) ?", ", "),
    _rule(r"[*~^_]", " "),
    # words
    _rule(r"(?<=\w )St\.(?! [A-Z])", "Street"),
    _rule(rf"(?<!\w)(?:{_ABBREVIATION})(?=,? ?\w)", lambda m: ABBREVIATIONS[m[0]]),
    _rule(r"(?<![\w.])([A-Z](?:\.[A-Z])+)\.(?= \S|[,;:!?'])", lambda m: m[1].replace(".", "")),
    _rule(r"\b([Aa]nd)/(?=or\b)", r"\1 "),
    _rule(r"(?<=\b[A-Z])/(?=[A-Z]\b)", " "),
    _rule(r"(?<=[a-z]{2})/(?=[a-z]{2})", " or "),
    _rule(r"\b[A-Z]+(?:[ ,]+[A-Z]+){2,}\b", _shouted),
    # punctuation
    _rule(r"[!?]{2,}", lambda m: "?" if "?" in m[0] else "!"),
    _rule(r" ?(?:\.{2,}|…)$", "."),
    _rule(r" ?(?:\.{2,}|…) ?", ", "),
    _rule(r"(?<=\w) -{1,2} (?=\w)", ", "),
    _rule(r" +(?=[,.;:!?](?!\d))", ""),
    _rule(r",(?: ?,)+", ","),
    _rule(r"^[ ,;:]+", ""),
)
