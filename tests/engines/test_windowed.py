from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest

from voicepipe.engines.base import Context, Samples, StepSize, Transcript, Window
from voicepipe.engines.features import SAMPLE_RATE_HZ
from voicepipe.engines.hypothesis import Guard, Judgement, split_words
from voicepipe.engines.utterance import TimedWord
from voicepipe.engines.windowed import (
    FULL_WINDOW_S,
    KEPT_S,
    RETRY_TAIL_S,
    TAIL_S,
    Heard,
    WindowedStream,
    not_worth_decoding,
    quietest,
)

CTX = Context(session="s", turn=1, epoch=0, revision=0)
WORD_S = 0.5
Answer = tuple[str, Guard | None]


def seconds(length_s: float) -> int:
    return int(length_s * SAMPLE_RATE_HZ)


def loud(length_s: float) -> Samples:
    return np.full(seconds(length_s), 0.1, np.float32)


def heard(text: str, rejected: Guard | None = None, language: str | None = None) -> Heard[str]:
    return Heard(Judgement(tuple(split_words(text)), rejected), language, (), tuple(map(ord, text)), text, 5)


class Scripted:
    """Says the next of its answers, whatever it hears; words end every half second."""

    def __init__(self, *answers: str | Answer, language: str | None = None) -> None:
        self.answers: Iterator[str | Answer] = iter(answers)
        self.asked: list[tuple[float, float, str | None]] = []
        self.guards: Counter[str] = Counter()
        self.drafts: list[Sequence[int]] = []
        self._language = language

    def encode(self, audio: Samples, tail_s: float) -> str:
        self.tail_s = tail_s
        return f"{len(audio)}"

    def hear(
        self, audio: Samples, states: str, *, speech_s: float, language: str | None, draft: Sequence[int] = ()
    ) -> Heard[str]:
        self.asked.append((len(audio) / SAMPLE_RATE_HZ, self.tail_s, language))
        self.drafts.append(draft)
        answer = next(self.answers)
        text, guard = (answer, None) if isinstance(answer, str) else answer
        return heard(text, guard, self._language)

    def timed_words(self, heard: Heard[str], audio: Samples) -> Sequence[TimedWord]:
        return [TimedWord(word, (n + 1) * WORD_S) for n, word in enumerate(split_words(heard.states))]

    def count(self, guard: str) -> None:
        self.guards[guard] += 1


class Counting(Scripted):
    """Hears one numbered word per half second of the sample clock, written into the samples' values."""

    def hear(
        self, audio: Samples, states: str, *, speech_s: float, language: str | None, draft: Sequence[int] = ()
    ) -> Heard[str]:
        self.asked.append((len(audio) / SAMPLE_RATE_HZ, self.tail_s, language))
        self.drafts.append(draft)
        numbers = np.unique(np.round(audio[audio > 0] * 1e4).astype(int))
        whole = [n for n in numbers if np.count_nonzero(np.round(audio * 1e4) == n) >= seconds(WORD_S) * 0.6]
        return heard(" ".join(f"w{n}" for n in whole))

    def timed_words(self, heard: Heard[str], audio: Samples) -> Sequence[TimedWord]:
        names = np.round(audio * 1e4).astype(int)
        return [
            TimedWord(word, (np.flatnonzero(names == int(word.strip()[1:]))[-1] + 1) / SAMPLE_RATE_HZ)
            for word in split_words(heard.states)
        ]


def numbered(count: int) -> Samples:
    """Word n is 0.42 s of the value n / 10,000, then 80 ms of nothing."""
    word = np.ones(seconds(WORD_S), np.float32)
    word[seconds(0.42) :] = 0
    return np.concatenate([word * np.float32(n / 1e4) for n in range(100, 100 + count)])


def feed(stream: WindowedStream[str], audio: Samples, *, hop_s: float = 0.5) -> list[Transcript]:
    """Partials every hop, from `window_start` on, and a final at the end."""
    transcripts = []
    for now in [*range(seconds(hop_s), len(audio), seconds(hop_s)), len(audio)]:
        begin = stream.window_start
        window = Window(1, begin, audio[begin:now], now)
        transcripts.append(stream.decode(window, final=now == len(audio), ctx=CTX))
    return transcripts


def partial(stream: WindowedStream[str], length_s: float = 2.0, *, utterance: int = 1) -> Transcript:
    return stream.decode(Window(utterance, 0, loud(length_s), seconds(length_s)), final=False, ctx=CTX)


def final(stream: WindowedStream[str], length_s: float = 2.0, *, utterance: int = 1) -> Transcript:
    return stream.decode(Window(utterance, 0, loud(length_s), seconds(length_s)), final=True, ctx=CTX)


# --- one utterance ----------------------------------------------------------------------------------------


def test_partials_agree_and_a_final_replaces_them() -> None:
    stream = WindowedStream(Scripted("What is", "What is the", "What is the time?"), None)
    assert partial(stream) == Transcript("", "What is", final=False, tokens=5, encoded_s=2.6)
    assert partial(stream) == Transcript("What is", "the", final=False, tokens=5, encoded_s=2.6)
    assert final(stream) == Transcript("What is the time?", "", final=True, tokens=5, encoded_s=2.6)


def test_what_was_heard_last_is_the_draft_of_what_is_heard_next() -> None:
    """Of a partial and of a final, and when speech goes on after one."""
    recogniser = Scripted("What", "What is it?", "What is it? Well")
    stream = WindowedStream(recogniser, None)
    partial(stream, 1.0)
    final(stream, 2.2)
    partial(stream, 3.0)
    assert recogniser.drafts == [(), tuple(map(ord, "What")), tuple(map(ord, "What is it?"))]


def test_another_utterance_has_no_draft() -> None:
    recogniser = Scripted("What is it?", "Well")
    stream = WindowedStream(recogniser, None)
    final(stream, 2.0)
    partial(stream, 2.0, utterance=2)
    assert recogniser.drafts == [(), ()]


def test_a_window_that_was_cut_has_no_draft() -> None:
    recogniser = Counting()
    feed(WindowedStream(recogniser, None), numbered(40))
    lengths = [length_s for length_s, _, _ in recogniser.asked]
    cut = [now for before, now in pairwise(lengths) if now < before + WORD_S]
    assert cut
    assert [length_s for length_s, draft in zip(lengths, recogniser.drafts, strict=True) if not draft][1:] == cut


def size_of(stream: WindowedStream[str], length_s: float, *, utterance: int = 1, final: bool = True) -> StepSize:
    return stream.next_size(Window(utterance, 0, loud(length_s), seconds(length_s)), final=final)


@pytest.mark.parametrize(
    ("grown_s", "variant"),
    [(0.2, "recheck"), (0.3, ""), (-0.1, "")],
    ids=["nearly all was heard", "more sound has come since", "it heard more"],
)
def test_a_final_shortly_behind_what_was_heard_last_is_a_recheck(grown_s: float, variant: str) -> None:
    stream = WindowedStream(Scripted("What is it?"), None)
    partial(stream, 2.0)
    assert size_of(stream, 2.0 + grown_s) == StepSize(variant, pytest.approx(2.0 + grown_s))  # type: ignore[arg-type]
    assert size_of(stream, 2.0 + grown_s, final=False).variant == ""
    assert size_of(stream, 2.0 + grown_s, utterance=2).variant == ""


@pytest.mark.parametrize(("grown_s", "variant"), [(0.2, "recheck"), (0.3, "")])
def test_a_decode_at_work_counts_as_what_will_have_been_heard_last(grown_s: float, variant: str) -> None:
    """If its sound is near enough, and of the same utterance."""
    sizes: list[StepSize] = []

    class Asked(Scripted):
        def encode(self, audio: Samples, tail_s: float) -> str:
            sizes.extend(size_of(stream, 2.0 + grown_s, utterance=utterance) for utterance in (1, 2))
            return super().encode(audio, tail_s)

    stream = WindowedStream(Asked("What is it?"), None)
    partial(stream, 2.0)
    assert [size.variant for size in sizes] == [variant, ""]


def test_only_what_has_not_been_released_is_to_be_decoded() -> None:
    stream = WindowedStream(Scripted("one"), None)
    stream.decode(Window(1, 8_000, loud(1.0), seconds(2.0)), final=False, ctx=CTX)
    assert size_of(stream, 2.0).units == pytest.approx(1.5)
    assert size_of(stream, 2.0, utterance=2).units == pytest.approx(2.0)


def test_a_rejected_hypothesis_is_no_draft() -> None:
    recogniser = Scripted(("What is it?", "repetition"), "What is it for?")
    stream = WindowedStream(recogniser, None)
    partial(stream, 2.0)
    assert final(stream, 2.1).text == "What is it for?"
    assert recogniser.drafts == [(), ()]


def test_a_hypothesis_of_another_window_is_not_looked_at_again() -> None:
    """A new utterance begins with nothing."""
    recogniser = Scripted("What is it?", "Who is it?")
    stream = WindowedStream(recogniser, None)
    partial(stream, 2.0)
    assert final(stream, 2.1, utterance=2).text == "Who is it?"


def test_speech_after_a_final_belongs_to_the_same_utterance() -> None:
    stream = WindowedStream(Scripted("What is", "What is the", "What is the time?"), None)
    assert final(stream).text == "What is"
    assert partial(stream).text == "What is the"
    assert final(stream).text == "What is the time?"


def test_a_new_utterance_forgets_the_one_before() -> None:
    stream = WindowedStream(Scripted("one two", "one two three", "four"), None)
    partial(stream)
    partial(stream)
    window = Window(2, 50_000, loud(2.0), seconds(2.0))
    assert stream.decode(window, final=True, ctx=CTX).text == "four"
    assert stream.window_start == 50_000


def test_only_samples_from_the_window_start_on_are_decoded() -> None:
    recogniser = Scripted("one", "two")
    stream = WindowedStream(recogniser, None)
    partial(stream)
    stream.window_start = seconds(1.5)
    partial(stream)
    assert [length_s for length_s, _, _ in recogniser.asked] == [2.0, 0.5]


def test_audio_that_the_caller_no_longer_has_is_skipped() -> None:
    stream = WindowedStream(Scripted("one", "two"), None)
    partial(stream)
    stream.decode(Window(1, 8_000, loud(1.0), seconds(2.0)), final=False, ctx=CTX)
    assert stream.window_start == 8_000


def test_a_settled_language_is_kept_for_the_session() -> None:
    recogniser = Scripted("ja", "nein", language="<|de|>")
    stream = WindowedStream(recogniser, None)
    final(stream, utterance=1)
    final(stream, utterance=2)
    assert [language for _, _, language in recogniser.asked] == [None, "<|de|>"]


# --- guards -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("audio", "speech_s", "is_final", "guard"),
    [
        (loud(2.0), 0.1, True, "little_speech"),
        (loud(2.0), 0.4, False, "early"),
        (loud(2.0), 0.4, True, None),
        (loud(2.0) * 0.005, 1.0, True, "quiet"),
        (loud(0.0), 1.0, True, "quiet"),
        (np.where(np.arange(16_000) == 5, np.nan, 0.1).astype(np.float32), 1.0, True, "not_finite"),
        (np.concatenate((loud(3.0) * 0, loud(0.1))), 1.0, True, None),
    ],
)
def test_some_windows_are_not_worth_a_decode(
    audio: Samples, speech_s: float, is_final: bool, guard: Guard | None
) -> None:
    assert not_worth_decoding(audio, speech_s, final=is_final) == guard


def test_a_rejected_window_is_counted_costs_nothing_and_says_nothing() -> None:
    recogniser = Scripted()
    stream = WindowedStream(recogniser, None)
    window = Window(1, 0, np.zeros(32_000, np.float32), 32_000)
    assert stream.decode(window, final=True, ctx=CTX) == Transcript("", "", final=True, rejected="quiet")
    assert recogniser.guards == {"quiet": 1}


def test_a_loop_in_two_successive_hypotheses_is_never_committed() -> None:
    loop: Answer = ("Tell me a joke", "repetition")
    recogniser = Scripted(loop, loop, loop, "Tell me a joke about", "Tell me a joke about")
    stream = WindowedStream(recogniser, None)
    for _ in range(3):
        assert partial(stream) == Transcript("", "Tell me a joke", False, "repetition", 5, 2.6)
    assert partial(stream).stable == ""
    assert partial(stream).stable == "Tell me a joke"
    assert recogniser.guards == {"repetition": 3}


def test_a_final_that_loops_is_tried_once_more_with_more_silence() -> None:
    recogniser = Scripted(("a joke", "repetition"), "Tell me a joke.")
    transcript = final(WindowedStream(recogniser, None))
    assert (transcript.text, transcript.rejected, transcript.tokens) == ("Tell me a joke.", None, 10)
    assert [tail_s for _, tail_s, _ in recogniser.asked] == [TAIL_S, RETRY_TAIL_S]


def test_a_final_that_loops_twice_says_the_first_round() -> None:
    loop: Answer = ("Tell me a joke", "repetition")
    transcript = final(WindowedStream(Scripted(loop, loop), None))
    assert (transcript.text, transcript.rejected) == ("Tell me a joke", "repetition")


# --- long monologues --------------------------------------------------------------------------------------


def test_a_long_monologue_loses_and_doubles_no_word_and_its_window_stays_bounded() -> None:
    recogniser = Counting()
    transcripts = feed(WindowedStream(recogniser, None), numbered(240))
    assert transcripts[-1].text.split() == [f"w{n}" for n in range(100, 340)]
    assert max(length_s for length_s, _, _ in recogniser.asked) < FULL_WINDOW_S


def test_stable_text_only_grows_in_a_long_monologue() -> None:
    partials = feed(WindowedStream(Counting(), None), numbered(120))[:-1]
    for before, after in pairwise(partials):
        assert after.stable.startswith(before.stable)


def test_a_final_without_partials_before_it_decodes_everything_in_bounded_windows() -> None:
    recogniser = Counting()
    audio = numbered(100)
    window = Window(1, 0, audio, len(audio))
    transcript = WindowedStream(recogniser, None).decode(window, final=True, ctx=CTX)
    assert transcript.text.split() == [f"w{n}" for n in range(100, 200)]
    assert len(recogniser.asked) > 5
    assert max(length_s for length_s, _, _ in recogniser.asked) <= FULL_WINDOW_S


def test_a_late_partial_decodes_one_window_only() -> None:
    recogniser = Counting()
    stream = WindowedStream(recogniser, None)
    audio = numbered(100)
    stream.decode(Window(1, 0, audio, len(audio)), final=False, ctx=CTX)
    assert len(recogniser.asked) == 1
    assert 0 < stream.window_start <= seconds(FULL_WINDOW_S)


def test_a_long_pause_inside_an_utterance_is_let_go() -> None:
    pause = np.zeros(seconds(30.0), np.float32)
    audio = np.concatenate((numbered(4), pause, numbered(4) * 2))
    transcript = feed(WindowedStream(Counting(), None), audio)[-1]
    assert transcript.text.split() == ["w100", "w101", "w102", "w103", "w200", "w202", "w204", "w206"]


def test_a_full_window_of_nothing_is_emptied() -> None:
    recogniser = Scripted(("la la la", "repetition"), ("", "unsure"))
    stream = WindowedStream(recogniser, None)
    partial(stream, 12.0)
    assert stream.window_start == seconds(FULL_WINDOW_S - KEPT_S)


def test_the_cut_falls_into_the_pause_before_the_time_given() -> None:
    audio = loud(2.0)
    audio[seconds(0.9) : seconds(1.0)] = 0.0
    assert seconds(0.9) <= quietest(audio, 1.05) <= seconds(1.0)
    assert quietest(loud(0.01), 0.0) == 0
