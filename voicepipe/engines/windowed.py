"""Streaming over a recogniser that decodes short windows: what to decode, what to believe, where to cut.

Knows no model: a `Recogniser` hears one piece of audio at a time. The window is the audio whose words are
not yet released; it is cut behind stable words so that the cost of a step has a bound, however long somebody
talks. There is no prompt and no forced prefix, so no text is ever fed back to the recogniser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from voicepipe.engines.base import Context, Samples, StepSize, Transcript, Window
from voicepipe.engines.features import SAMPLE_RATE_HZ
from voicepipe.engines.hypothesis import (
    MIN_PARTIAL_SPEECH_S,
    MIN_SPEECH_S,
    Guard,
    Judgement,
    ends_sentence,
)
from voicepipe.engines.utterance import TimedWord, Utterance, forced_points

TAIL_S = 0.6
"""Zeros behind the audio: the shortest of 0.3 to 1.0 s that cost no accuracy."""
RETRY_TAIL_S = 2.0
"""Second attempt at a final that looped."""
SENTENCE_WINDOW_S = 6.0
"""From here on a window is cut behind a stable sentence, because every token of it is decoded again by the
final that the speaker waits for."""
LONG_WINDOW_S = 8.0
"""From here on a window is cut behind any stable word."""
FULL_WINDOW_S = 10.0
"""At this length a window is cut, stable or not."""
KEPT_S = 2.0
"""What is kept of a full window in which nothing was understood."""
RECHECK_WITHIN_S = 0.25
"""A final that adds no more sound than this to the last hypothesis mostly has little new to say."""
QUIET_RMS = 0.001
"""-60 dBFS in the loudest 100 ms: nobody speaks into the microphone."""

_BLOCK_SAMPLES = 1_600
_CUT_BEFORE_S, _CUT_BEHIND_S = 0.3, 0.1
_CUT_BLOCK_SAMPLES = 480

StatesT = TypeVar("StatesT")


@dataclass(frozen=True, slots=True)
class Heard(Generic[StatesT]):
    """One decode of one piece of audio."""

    judgement: Judgement
    language: str | None
    """The language token that later decodes of the session should use; None while it is open."""
    prompt: tuple[int, ...]
    token_ids: tuple[int, ...]
    """Tokens of the text, special ones left out."""
    states: StatesT
    """What the recogniser needs to align the words."""
    tokens: int


class Recogniser(Protocol[StatesT]):
    """Decodes one piece of audio. Keeps nothing from call to call."""

    def encode(self, audio: Samples, tail_s: float) -> StatesT: ...

    def hear(
        self, audio: Samples, states: StatesT, *, speech_s: float, language: str | None, draft: Sequence[int] = ()
    ) -> Heard[StatesT]:
        """`states`: of this audio. `draft`: tokens that the text may begin with, and is likely to."""
        ...

    def timed_words(self, heard: Heard[StatesT], audio: Samples) -> Sequence[TimedWord]: ...

    def count(self, guard: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Last(Generic[StatesT]):
    """The last hypothesis that was believed, and the audio that it is of."""

    heard: Heard[StatesT]
    window_start: int
    samples: int


@dataclass(slots=True)
class _Spent:
    tokens: int = 0
    encoded_s: float = 0.0


class WindowedStream(Generic[StatesT]):
    """One session's recognition. Calls of `decode` never overlap; `window_start` may be read and `next_size` called
    from another thread meanwhile.

    After a final `stable` holds the whole text; when speech goes on, partials start again from the words that
    two hypotheses agreed on.
    """

    def __init__(self, recogniser: Recogniser[StatesT], language: str | None) -> None:
        self.window_start = 0
        self._recogniser = recogniser
        self._language = language
        self._number: int | None = None
        self._utterance = Utterance()
        self._last: _Last[StatesT] | None = None
        self._at_work: Window | None = None
        """What is being decoded."""

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        """A final is a "recheck" where little sound has come since the last hypothesis, which is its draft. Where a
        decode of nearly that sound is at work, there will mostly be one: for 97 of 126 such finals there was."""
        at_work, end = self._at_work, window.start + len(window.samples)
        same = window.utterance == self._number
        start = max(self.window_start, window.start) if same else window.start
        if not final:
            recheck = False
        elif at_work is not None and at_work.utterance == window.utterance:
            recheck = _is_near(end - (at_work.start + len(at_work.samples)))
        else:
            last = self._last
            recheck = (
                same and last is not None and last.window_start == start and _is_near(end - start - last.samples)
            )
        return StepSize("recheck" if recheck else "", max(0, end - start) / SAMPLE_RATE_HZ)

    def decode(self, window: Window, *, final: bool, ctx: Context) -> Transcript:
        """One step, bounded by `FULL_WINDOW_S` of audio. Only a final that finds more than that undecoded (no
        partial ran before it) takes several windows in a row: no word may be lost. Raises EngineError."""
        self._at_work = window
        try:
            return self._transcribe(window, final=final)
        finally:
            self._at_work = None

    def close(self) -> None:
        self._utterance, self._last = Utterance(), None
        self._number = None

    def _transcribe(self, window: Window, *, final: bool) -> Transcript:
        if window.utterance != self._number:
            self._number = window.utterance
            self._utterance, self._last = Utterance(), None
            self.window_start = window.start
        self.window_start = max(self.window_start, window.start)
        spent = _Spent()
        undecoded = window.samples[self.window_start - window.start :]
        while final and len(undecoded) > FULL_WINDOW_S * SAMPLE_RATE_HZ:
            self._step(undecoded, window, spent, final=False)
            undecoded = window.samples[self.window_start - window.start :]
        guard = self._step(undecoded, window, spent, final=final)
        if guard is not None:
            self._recogniser.count(guard)
        text = self._utterance
        return Transcript(
            stable=text.text if final else text.stable,
            tentative="" if final else text.tentative,
            final=final,
            rejected=guard,
            tokens=spent.tokens,
            encoded_s=spent.encoded_s,
        )

    def _step(self, undecoded: Samples, window: Window, spent: _Spent, *, final: bool) -> Guard | None:
        """Decode one window's worth and take in what was heard. Without `final`, a full window gets shorter."""
        audio = undecoded[: int(FULL_WINDOW_S * SAMPLE_RATE_HZ)]
        full = len(audio) == int(FULL_WINDOW_S * SAMPLE_RATE_HZ) and not final
        speech_s = min(window.speech_samples, len(audio)) / SAMPLE_RATE_HZ
        guard = not_worth_decoding(audio, speech_s, final=final)
        if guard is not None:
            self._reject(Judgement((), guard), audio, full=full)
            return guard
        states = self._encode(audio, TAIL_S, spent)
        heard = self._hear(audio, states, speech_s, spent, final=final)
        self._language = self._language or heard.language
        believed = heard.judgement.rejected is None and heard.judgement.words
        self._last = _Last(heard, self.window_start, len(audio)) if believed else None
        if heard.judgement.rejected is not None:
            self._reject(heard.judgement, audio, full=full)
        elif final:
            self._utterance.on_final(heard.judgement.words)
        else:
            self._utterance.on_partial(heard.judgement.words)
            self._cut(heard, audio, full=full)
        return heard.judgement.rejected

    def _hear(
        self, audio: Samples, states: StatesT, speech_s: float, spent: _Spent, *, final: bool
    ) -> Heard[StatesT]:
        """Decode; a final that loops gets one more attempt with more silence behind it."""
        heard = self._decode(audio, states, speech_s, spent, self._draft())
        if final and heard.judgement.rejected == "repetition":
            self._recogniser.count("repetition_attempt")
            heard = self._decode(audio, self._encode(audio, RETRY_TAIL_S, spent), speech_s, spent, ())
        return heard

    def _draft(self) -> Sequence[int]:
        """What the window was last thought to say, less sound ago."""
        last = self._last
        return last.heard.token_ids if last is not None and last.window_start == self.window_start else ()

    def _decode(
        self, audio: Samples, states: StatesT, speech_s: float, spent: _Spent, draft: Sequence[int]
    ) -> Heard[StatesT]:
        heard = self._recogniser.hear(audio, states, speech_s=speech_s, language=self._language, draft=draft)
        spent.tokens += heard.tokens
        return heard

    def _encode(self, audio: Samples, tail_s: float, spent: _Spent) -> StatesT:
        spent.encoded_s += len(audio) / SAMPLE_RATE_HZ + tail_s
        return self._recogniser.encode(audio, tail_s)

    def _reject(self, judgement: Judgement, audio: Samples, *, full: bool) -> None:
        self._utterance.on_rejected(judgement.words)
        if full:
            self._empty(audio)

    def _cut(self, heard: Heard[StatesT], audio: Samples, *, full: bool) -> None:
        """Let go of audio whose words are stable; of a full window in any case."""
        length_s = len(audio) / SAMPLE_RATE_HZ
        any_word = length_s >= LONG_WINDOW_S
        if not any_word and not (length_s >= SENTENCE_WINDOW_S and self._utterance.wants_cut()):
            return
        words = self._recogniser.timed_words(heard, audio)
        points = self._utterance.cut_points(words)
        count = best_point(words, points, audio if any_word else None)
        if count == 0 and full:
            count = max(forced_points(words, length_s), default=0)
        samples = quietest(audio, words[count - 1].end_s) if count else 0
        if samples:
            self._utterance.release(words, count)
            self.window_start += samples
        elif full:
            self._empty(audio)

    def _empty(self, audio: Samples) -> None:
        """Nothing can be made of a full window: keep its end only, so that the next step has room."""
        self._utterance.release_all()
        self.window_start += len(audio) - int(KEPT_S * SAMPLE_RATE_HZ)


def _is_near(new_samples: int) -> bool:
    return 0 <= new_samples <= RECHECK_WITHIN_S * SAMPLE_RATE_HZ


def not_worth_decoding(audio: Samples, speech_s: float, *, final: bool) -> Guard | None:
    """The guards that need no decoder."""
    if speech_s < MIN_SPEECH_S:
        return "little_speech"
    if not final and speech_s < MIN_PARTIAL_SPEECH_S:
        return "early"
    if not np.isfinite(audio).all():
        return "not_finite"
    return "quiet" if loudest_rms(audio) < QUIET_RMS else None


def loudest_rms(audio: Samples) -> float:
    """RMS of the loudest 100 ms."""
    behind = -len(audio) % _BLOCK_SAMPLES
    blocks = np.pad(audio, (0, behind)).reshape(-1, _BLOCK_SAMPLES)
    return float(np.sqrt(np.mean(blocks**2, axis=1).max(initial=0.0)))


def best_point(words: Sequence[TimedWord], points: Sequence[int], audio: Samples | None) -> int:
    """After how many words to cut: behind the last stable sentence; else, where `audio` is given, at the
    quietest of the stable words' ends; else 0 (nowhere)."""
    sentences = [count for count in points if ends_sentence(words[count - 1].text)]
    if sentences or audio is None:
        return max(sentences, default=0)
    return min(points, key=lambda count: loudness_at_cut(audio, words[count - 1].end_s), default=0)


def loudness_at_cut(audio: Samples, end_s: float) -> float:
    """Power of the 100 ms around the place where a cut behind this word would fall."""
    centre = quietest(audio, end_s)
    around = audio[max(0, centre - _BLOCK_SAMPLES // 2) : centre + _BLOCK_SAMPLES // 2]
    return float(np.mean(around**2)) if len(around) else 0.0


def quietest(audio: Samples, near_s: float) -> int:
    """Sample number of the quietest 30 ms around the end of a word, whose time is known to about 100 ms and
    tends to be late, because the aligner gives the pause after a word to it."""
    begin = max(0, int((near_s - _CUT_BEFORE_S) * SAMPLE_RATE_HZ))
    end = min(len(audio), int((near_s + _CUT_BEHIND_S) * SAMPLE_RATE_HZ))
    if end - begin < _CUT_BLOCK_SAMPLES:
        return begin
    energy = np.convolve(audio[begin:end] ** 2, np.ones(_CUT_BLOCK_SAMPLES), mode="valid")
    return begin + int(np.argmin(energy)) + _CUT_BLOCK_SAMPLES // 2
