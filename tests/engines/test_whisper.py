"""The real model: what it must hear, what it must not hear, and what a step may cost."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from voicepipe.audio import read_wav, resample
from voicepipe.engines.base import Context, Samples, Transcript, Window
from voicepipe.engines.features import SAMPLE_RATE_HZ
from voicepipe.engines.hypothesis import normalise_all, split_words
from voicepipe.engines.windowed import FULL_WINDOW_S, TAIL_S, Heard, WindowedStream
from voicepipe.errors import ConfigError, ModelError, ModelMissing

if TYPE_CHECKING:
    from voicepipe.engines.whisper import WhisperAsr

whisper = pytest.importorskip("voicepipe.engines.whisper", reason="needs the extra 'local'")
pytestmark = pytest.mark.models
States: TypeAlias = NDArray[np.float32]

CTX = Context(session="s", turn=1, epoch=0, revision=0)
BECKETT = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."
TWO_CITIES = (
    "It was the best of times, it was the worst of times. It was the age of wisdom, it was the age of foolishness."
)


@pytest.fixture(scope="module")
def asr(whisper_dir: Path) -> "WhisperAsr":
    loaded: WhisperAsr = whisper.WhisperAsr(whisper_dir, threads=2)
    return loaded


def load(path: Path) -> Samples:
    samples, rate_hz = read_wav(path, max_seconds=120)
    return resample(samples, rate_hz, SAMPLE_RATE_HZ)


def seconds(length_s: float) -> int:
    return int(length_s * SAMPLE_RATE_HZ)


def words(text: str) -> list[str]:
    return normalise_all(split_words(text))


def feed(stream: WindowedStream[States], audio: Samples) -> list[Transcript]:
    """Partials every 0.3 s of media time, and a final at the end."""
    transcripts: list[Transcript] = []
    hop = seconds(0.3)
    for now in [*range(hop, len(audio), hop), len(audio)]:
        begin = min(now, stream.window_start)
        window = Window(1, begin, audio[begin:now], now)
        transcripts.append(stream.decode(window, final=now == len(audio), ctx=CTX))
    return transcripts


# --- what it hears ----------------------------------------------------------------------------------------


def test_real_speech_is_heard_word_for_word(asr: "WhisperAsr", speech_dir: Path) -> None:
    transcripts = feed(asr.open(), load(speech_dir / "beckett.wav"))
    assert words(transcripts[-1].text) == words(BECKETT)


def test_speech_that_repeats_itself_is_neither_cut_nor_looped(asr: "WhisperAsr", speech_dir: Path) -> None:
    final = feed(asr.open(), load(speech_dir / "two_cities.wav")[: seconds(8.5)])[-1]
    assert words(final.text) == words(TWO_CITIES)
    assert final.rejected is None


def test_one_decode_without_partials_hears_the_same(asr: "WhisperAsr", speech_dir: Path) -> None:
    audio = load(speech_dir / "two_cities.wav")[: seconds(8.5)]
    transcript = asr.open().decode(Window(1, 0, audio, len(audio)), final=True, ctx=CTX)
    assert words(transcript.text) == words(TWO_CITIES)


def test_a_clip_cut_at_its_last_phoneme_keeps_its_last_word(asr: "WhisperAsr", speech_dir: Path) -> None:
    audio = load(speech_dir / "beckett.wav")
    end = np.flatnonzero(np.abs(audio) > 0.02)[-1]
    assert words(feed(asr.open(), audio[:end])[-1].text) == words(BECKETT)


def test_partials_never_take_back_a_stable_word(asr: "WhisperAsr", speech_dir: Path) -> None:
    partials = feed(asr.open(), load(speech_dir / "two_cities.wav")[: seconds(20)])[:-1]
    for before, after in pairwise(partials):
        assert after.stable.startswith(before.stable)


def test_speech_goes_on_after_a_pause_that_was_none(asr: "WhisperAsr", speech_dir: Path) -> None:
    audio = load(speech_dir / "beckett.wav")
    stream = asr.open()
    first = stream.decode(Window(1, 0, audio[: seconds(5.9)], seconds(5.5)), final=True, ctx=CTX)
    assert words(first.text) == words(BECKETT)[:8]
    begin = stream.window_start
    second = stream.decode(Window(1, begin, audio[begin:], len(audio)), final=True, ctx=CTX)
    assert words(second.text) == words(BECKETT)


def test_long_silence_inside_an_utterance_doubles_no_word(asr: "WhisperAsr", speech_dir: Path) -> None:
    audio = load(speech_dir / "beckett.wav")
    pause = np.zeros(seconds(20), np.float32)
    final = feed(asr.open(), np.concatenate((audio, pause, audio)))[-1]
    assert words(final.text) == words(BECKETT) * 2


# --- what it must not hear --------------------------------------------------------------------------------


def noises() -> dict[str, Samples]:
    rng = np.random.default_rng(0)
    t = np.arange(seconds(5)) / SAMPLE_RATE_HZ
    tremolo = sum(np.sin(2 * np.pi * hz * t) for hz in (262, 330, 392)) * (1 + 0.5 * np.sin(2 * np.pi * 5 * t))
    return {
        "silence": np.zeros(seconds(5)),
        "room": rng.normal(0, 0.003, seconds(5)),
        "white": rng.normal(0, 0.1, seconds(5)),
        "short": rng.normal(0, 0.05, seconds(0.6)),
        "tone": 0.1 * np.sin(2 * np.pi * 440 * t),
        "chord": 0.05 * tremolo,
        "clicks": np.where(np.arange(seconds(5)) % 8_000 == 0, 0.5, 0.0),
    }


@pytest.mark.parametrize("name", noises())
def test_noise_and_music_say_nothing(asr: "WhisperAsr", name: str) -> None:
    transcripts = feed(asr.open(), noises()[name].astype(np.float32))
    assert [transcript.text for transcript in transcripts if transcript.text] == []
    assert transcripts[-1].rejected is not None


def test_a_sample_that_is_no_number_costs_the_step_only(asr: "WhisperAsr", speech_dir: Path) -> None:
    audio = load(speech_dir / "beckett.wav")
    bad = audio.copy()
    bad[1_000] = np.nan
    stream = asr.open()
    assert stream.decode(Window(1, 0, bad, len(bad)), final=True, ctx=CTX).rejected == "not_finite"
    good = stream.decode(Window(2, 0, audio, len(audio)), final=True, ctx=CTX)
    assert words(good.text) == words(BECKETT)
    assert asr.guards["not_finite"] >= 1


# --- what a step costs ------------------------------------------------------------------------------------


def test_the_steps_of_a_long_monologue_do_not_grow(asr: "WhisperAsr", speech_dir: Path) -> None:
    audio = load(speech_dir / "two_cities.wav")
    transcripts = feed(asr.open(), audio)
    assert max(transcript.encoded_s for transcript in transcripts) <= FULL_WINDOW_S + TAIL_S + 0.5
    assert max(transcript.tokens for transcript in transcripts) <= 6 * FULL_WINDOW_S + 9
    assert len(words(transcripts[-1].text)) == pytest.approx(119, abs=6)


def test_the_token_cap_is_the_number_of_tokens_that_may_come(
    asr: "WhisperAsr", speech_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTranslate2 halves the `max_length` it is given: passed on as it is, it would end the text early."""
    monkeypatch.setattr(whisper, "TOKENS_PER_S", 0)
    monkeypatch.setattr(whisper, "TOKENS_EXTRA", 20)
    audio = load(speech_dir / "two_cities.wav")[: seconds(8.5)]
    heard = asr.hear(audio, asr.encode(audio, TAIL_S), speech_s=8.0, language=None)
    assert heard.tokens == 20


@pytest.mark.parametrize("behind_s", [0.1, 0.8], ids=["nearly all of it", "without its last word"])
def test_a_draft_is_corrected_and_carried_on_with(asr: "WhisperAsr", speech_dir: Path, behind_s: float) -> None:
    audio = load(speech_dir / "two_cities.wav")[seconds(21.1) : seconds(24.4)]

    def heard(audio: Samples, draft: Sequence[int]) -> Heard[States]:
        return asr.hear(audio, asr.encode(audio, TAIL_S), speech_s=3.0, language=None, draft=draft)

    whole, begun = heard(audio, ()), heard(audio[: -seconds(behind_s)], ())
    assert words("".join(heard(audio, begun.token_ids).judgement.words)) == words("".join(whole.judgement.words))


def test_ctranslate2_hears_the_same(asr: "WhisperAsr", whisper_dir: Path, speech_dir: Path) -> None:
    """It decodes where our own steps do not: on another device, or with other weights."""
    other = whisper.WhisperAsr(whisper_dir, compute_type="float32", threads=2)
    audio = load(speech_dir / "beckett.wav")
    for one in (asr, other):
        final = one.open().decode(Window(1, 0, audio, len(audio)), final=True, ctx=CTX)
        assert words(final.text) == words(BECKETT)
    states = asr.encode(audio, TAIL_S)
    ours, theirs = (one._decoder.decode(states, asr._prompt(None), (), 40) for one in (asr, other))
    assert [type(one._decoder).__name__ for one in (asr, other)] == ["DraftDecoder", "Ct2Decoder"]
    assert words(asr._tokenizer.decode(ours.ids)) == words(BECKETT)
    assert ours.logprob == pytest.approx(theirs.logprob, abs=0.05)
    assert ours.no_speech == pytest.approx(theirs.no_speech, abs=0.05)


# --- loading ----------------------------------------------------------------------------------------------


def test_a_directory_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"model\.bin"):
        whisper.WhisperAsr(tmp_path)


def test_a_broken_model_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"no model")
    with pytest.raises(ModelError):
        whisper.WhisperAsr(tmp_path)


def test_an_english_model_refuses_another_language(whisper_dir: Path) -> None:
    with pytest.raises(ConfigError, match="only knows English"):
        whisper.WhisperAsr(whisper_dir, language="de")
