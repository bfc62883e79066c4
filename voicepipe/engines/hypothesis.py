"""What a hypothesis of the recogniser is worth: words, loops, guards. Text and numbers only, no audio.

Whisper invents text: out of noise ("Thank you."), and by saying the end of a phrase again and again when it
does not notice that the speech is over. `judge` decides what of a hypothesis may be believed. A guard that
fires is not an error; it empties the hypothesis or cuts it, and has a stable name for the counters.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

Guard = Literal[
    "little_speech",
    "early",
    "quiet",
    "not_finite",
    "no_speech",
    "unsure",
    "repetition",
    "rate",
    "boilerplate",
    "empty",
]
"""Why a step's hypothesis was emptied (or, with "repetition", cut)."""

MIN_SPEECH_S = 0.128
"""Less voiced audio than this is a click, not a word: four frames of the voice activity detector."""
MIN_PARTIAL_SPEECH_S = 0.5
"""The first 250 ms of an utterance decode to noise; from here on partials are worth their cost."""
NO_SPEECH = 0.6
NO_SPEECH_LOGPROB = -0.8
UNSURE_LOGPROB = -1.2
UNSURE_SHORT_LOGPROB = -2.0
SHORT_TOKENS = 4
"""Below this many tokens the mean is noise: a clear "Yes." at the very end of a window was seen at -1.57."""
COMPRESSION = 2.4
TOKENS_PER_S = 12.0
RATE_MIN_TOKENS = 10
"""Short answers are dense ("Yes." is 2 tokens in 150 ms): the rate means nothing below this many tokens."""
BOILERPLATE_SPEECH_S = 1.0
BOILERPLATE_NO_SPEECH = 0.3
BOILERPLATE_LOGPROB = -0.5
"""Real short phrases were seen above this, invented ones below."""
LOOP_WORDS = 16
"""The longest phrase whose repetition is looked for: a sentence."""

BOILERPLATE = frozenset(
    {
        "you",
        "bye",
        "bye bye",
        "thank you",
        "thank you very much",
        "thank you so much",
        "thank you for watching",
        "thanks for watching",
        "thanks for listening",
        "please subscribe",
        "subtitles by the amara org community",
        "i ll see you next time",
        "see you next time",
        "untertitel der amara org community",
        "untertitel im auftrag des zdf für funk 2017",
        "vielen dank fürs zuschauen",
        "sous titres réalisés par la communauté d amara org",
        "sous titrage société radio canada",
        "merci d avoir regardé cette vidéo",
        "subtítulos realizados por la comunidad de amara org",
        "gracias por ver el video",
        "sottotitoli creati dalla comunità amara org",
        "legendas pela comunidade amara org",
        "субтитры сделал dimatorzok",
        "продолжение следует",
        "ご視聴ありがとうございました",
        "시청해주셔서 감사합니다",
        "请不吝点赞 订阅 转发 打赏支持明镜与点点栏目",
    }
)
"""What Whisper writes over silence, normalised: the closing lines of the videos that it was trained on."""

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff"
_PIECE = re.compile(rf"\s*(?:[{_UNSPACED}]|[^\s{_UNSPACED}]+)")
_ANNOTATION = re.compile(r"\[[^\]]*\]|\([^)]*\)|\*[^*]*\*|[♪♫]+")
_SEPARATOR = re.compile(r"[\W_]+")
_ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMBERS = {word: str(value) for value, word in enumerate(_ONES)} | {
    word: str(20 + 10 * value) for value, word in enumerate(_TENS)
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One decode of one window."""

    text: str
    tokens: int
    token_cap: int
    """The decode was stopped after this many tokens."""
    speech_s: float
    """Voiced seconds in the window."""
    avg_logprob: float
    """Mean log probability of the tokens, end of text included."""
    no_speech: float
    """The model's probability in [0, 1] that there is no speech."""

    @property
    def capped(self) -> bool:
        return self.tokens >= self.token_cap


@dataclass(frozen=True, slots=True)
class Judgement:
    """What may be believed. `rejected` with words left: a loop, cut to its first round, not to be committed."""

    words: tuple[str, ...]
    rejected: Guard | None


def split_words(text: str) -> list[str]:
    """Words with the space before them, so that joining them gives the text back. Scripts written without
    spaces count every character as a word. Annotations like "[Music]" are no words."""
    pieces = _PIECE.findall(_ANNOTATION.sub(" ", text))
    return [piece for piece in pieces if piece.strip()]


def word_ends(text: str) -> list[int]:
    """For each word of `split_words(text)`, the number of characters of `text` up to its end."""
    blanked = _ANNOTATION.sub(lambda found: " " * len(found.group()), text)
    return [found.end() for found in _PIECE.finditer(blanked) if found.group().strip()]


def with_space(words: Sequence[str]) -> list[str]:
    """The same words, the first of them fit to follow others."""
    if not words or words[0][:1].isspace() or re.match(f"[{_UNSPACED}]", words[0]):
        return list(words)
    return [f" {words[0]}", *words[1:]]


def join_words(words: Sequence[str]) -> str:
    return "".join(words).strip()


def normalise(word: str) -> str:
    """A word for comparison: case, punctuation and the form of small numbers folded. May be ""."""
    folded = _SEPARATOR.sub("", word.casefold())
    return _NUMBERS.get(folded, folded)


def normalise_all(words: Sequence[str]) -> list[str]:
    return [normalise(word) for word in words]


def ends_sentence(word: str) -> bool:
    return word.rstrip("\"'”’)").endswith((".", "?", "!", "。", "？", "！"))


def compression_ratio(text: str) -> float:
    """Bytes of the text over its deflated bytes: about 1 for ordinary sentences, high for repeated ones."""
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0


def loop_end(words: Sequence[str], *, capped: bool) -> int | None:
    """How many words stand up to the end of the first round of a loop at the tail; None without one.

    `words` are normalised. People do say things three times ("no, no, no"), so a decode that stopped by
    itself must repeat more often before it counts as a loop than one that ran into its token cap.
    The last round may be unfinished.
    """
    total = len(words)
    for size in range(1, min(LOOP_WORDS, total // 2) + 1):
        repeated = 0
        while repeated + size < total and words[-1 - repeated] == words[-1 - repeated - size]:
            repeated += 1
        if repeated >= size * (_rounds_of_a_loop(size, capped=capped) - 1):
            return total - repeated
    return None


def _rounds_of_a_loop(size: int, *, capped: bool) -> int:
    if capped:
        return 3 if size == 1 else 2
    return {1: 6, 2: 4}.get(size, 3)


def judge(evidence: Evidence) -> Judgement:
    """Apply the guards that need the decoder's answer, the surest first."""
    if not isfinite(evidence.avg_logprob) or not isfinite(evidence.no_speech):
        return Judgement((), "not_finite")
    words = split_words(evidence.text)
    folded = normalise_all(words)
    if not any(folded):
        return Judgement((), "empty")
    if evidence.no_speech > NO_SPEECH and evidence.avg_logprob < NO_SPEECH_LOGPROB:
        return Judgement((), "no_speech")
    short = evidence.tokens < SHORT_TOKENS
    if evidence.avg_logprob < (UNSURE_SHORT_LOGPROB if short else UNSURE_LOGPROB):
        return Judgement((), "unsure")
    end = loop_end(folded, capped=evidence.capped)
    if end is not None:
        return Judgement(tuple(words[:end]), "repetition")
    if compression_ratio(evidence.text) > COMPRESSION:
        return Judgement((), "repetition")
    if _too_fast(evidence):
        return Judgement((), "rate")
    if _is_boilerplate(evidence):
        return Judgement((), "boilerplate")
    return Judgement(tuple(words), None)


def _too_fast(evidence: Evidence) -> bool:
    return evidence.tokens >= RATE_MIN_TOKENS and evidence.tokens > TOKENS_PER_S * evidence.speech_s


def _is_boilerplate(evidence: Evidence) -> bool:
    """The same words are also said in earnest: only a doubtful window makes them suspicious."""
    doubtful = evidence.no_speech > BOILERPLATE_NO_SPEECH or (
        evidence.speech_s < BOILERPLATE_SPEECH_S and evidence.avg_logprob < BOILERPLATE_LOGPROB
    )
    return doubtful and " ".join(_SEPARATOR.split(evidence.text.casefold())).strip() in BOILERPLATE
