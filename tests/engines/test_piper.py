"""A Piper voice, in pieces: first a tiny voice that needs no download, then the real one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
pytest.importorskip("piper")

from piper.phoneme_ids import DEFAULT_PHONEME_ID_MAP  # noqa: E402

from tests.engines import tiny_voice  # noqa: E402
from voicepipe.engines.base import Context, Samples, StepSize, TtsStep  # noqa: E402
from voicepipe.engines.piper import (  # noqa: E402
    Pacing,
    PiperSynthesis,
    PiperTts,
    plan_windows,
    split_phonemes,
)
from voicepipe.errors import ConfigError, ModelCorrupt, ModelMissing  # noqa: E402

CTX = Context("session", turn=1, epoch=1, revision=1)
WHOLE = Pacing(earliest_frames=100_000, first_frames=100_000, frames=100_000)
DEFAULT_IDS = {p: ids[0] for p, ids in DEFAULT_PHONEME_ID_MAP.items()}
SENTENCE = "Sure, I can help you with that."


def steps(tts: PiperTts, text: str, *, first: bool = True) -> list[TtsStep]:
    synthesis = tts.synthesize(text, CTX, first=first)
    made = [synthesis.step()]
    while not made[-1].last:
        made.append(synthesis.step())
    return made


def audio(tts: PiperTts, text: str, *, first: bool = True) -> Samples:
    return np.concatenate([step.samples for step in steps(tts, text, first=first)])


@pytest.fixture(scope="module")
def voice_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_voice.write_voice(tmp_path_factory.mktemp("voice"), tiny_voice.tiny_model())


@pytest.fixture(scope="module")
def voice(voice_path: Path) -> PiperTts:
    return PiperTts(voice_path, threads=1)


# --- pieces and the whole --------------------------------------------------------------------


def test_a_voice_describes_itself(voice: PiperTts) -> None:
    assert voice.name == "piper:tiny"
    assert voice.sample_rate_hz == tiny_voice.RATE_HZ
    assert voice.placement == "thread"
    assert voice.whole_because is None


@pytest.mark.parametrize(
    "pacing",
    [
        Pacing(earliest_frames=1, frames=1),
        Pacing(earliest_frames=2, frames=7),
        Pacing(earliest_frames=24, frames=64, joint_phonemes=0),
        Pacing(),
    ],
)
def test_the_pieces_are_the_whole(voice_path: Path, pacing: Pacing) -> None:
    pieces = PiperTts(voice_path, threads=1, pacing=pacing)
    whole = PiperTts(voice_path, threads=1, pacing=WHOLE)
    assert len(steps(pieces, SENTENCE)) > len(steps(whole, SENTENCE))
    np.testing.assert_allclose(audio(pieces, SENTENCE), audio(whole, SENTENCE), atol=1e-6)


def test_a_voice_that_cannot_be_cut_says_so_and_sounds_the_same(tmp_path: Path, voice: PiperTts) -> None:
    path = tiny_voice.write_voice(tmp_path, tiny_voice.tiny_model(decoder_name="other"))
    whole = PiperTts(path, threads=1)
    assert whole.whole_because == "0 convolutions are called dec.conv_pre, not one"
    assert len(steps(whole, "Yes.")) == 1
    np.testing.assert_allclose(audio(whole, SENTENCE), audio(voice, SENTENCE), atol=1e-6)


def test_the_first_clause_starts_with_a_smaller_window(voice: PiperTts) -> None:
    earliest, usual = steps(voice, SENTENCE)[0], steps(voice, SENTENCE, first=False)[0]
    hop = tiny_voice.HOP_SAMPLES
    assert 0 < len(earliest.samples) <= Pacing().earliest_frames * hop
    assert len(earliest.samples) < len(usual.samples) <= Pacing().first_frames * hop
    np.testing.assert_allclose(audio(voice, SENTENCE), audio(voice, SENTENCE, first=False), atol=1e-6)


def test_only_the_first_sentence_of_the_first_clause_hurries(voice: PiperTts) -> None:
    one = steps(voice, "Yes. Yes, I can help.")
    other = steps(voice, "Yes, I can help.", first=False)
    second = one[len(steps(voice, "Yes.")) :]
    assert [len(step.samples) for step in second] == [len(step.samples) for step in other]


def test_a_long_sentence_gets_a_step_for_its_front_end(voice_path: Path) -> None:
    tts = PiperTts(voice_path, threads=1, pacing=Pacing(joint_phonemes=5))
    assert len(steps(tts, SENTENCE)[0].samples) == 0
    assert len(steps(tts, "Yes.")[0].samples) > 0


def test_no_step_makes_more_than_its_window(voice: PiperTts) -> None:
    pacing = Pacing()
    most = (pacing.frames + tiny_voice.REACH_FRAMES) * tiny_voice.HOP_SAMPLES
    pause = round(0.15 * tiny_voice.RATE_HZ)
    made = steps(voice, "one two three " * 100 + ", and so on.")
    assert len(made) > 10
    assert all(len(step.samples) <= most + pause for step in made)


# --- what is said ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "...", "?!", "😀", "**", "—", "\n\n", "¿"])
def test_nothing_to_say_is_one_empty_last_step(voice: PiperTts, text: str) -> None:
    (only,) = steps(voice, text)
    assert only.last
    assert only.samples.shape == (0,)


@pytest.mark.parametrize(
    ("text", "pause_s"),
    [("Yes.", 0.15), ("Yes?", 0.15), ("Yes!", 0.15), ("Yes,", 0.07), ("Yes:", 0.07), ("Yes", 0.03)],
)
def test_the_pause_after_a_clause_follows_its_punctuation(voice: PiperTts, text: str, pause_s: float) -> None:
    samples = audio(voice, text)
    pause = round(pause_s * tiny_voice.RATE_HZ)
    assert not samples[-pause:].any()
    assert samples[-pause - tiny_voice.RATE_HZ // 100 : -pause].any()


def test_each_sentence_of_a_clause_ends_in_its_pause(voice: PiperTts) -> None:
    both = audio(voice, "Yes. No,")
    np.testing.assert_allclose(both, np.concatenate((audio(voice, "Yes."), audio(voice, "No,"))), atol=1e-6)


def test_the_same_text_has_the_same_samples_whatever_came_before(voice: PiperTts) -> None:
    before = audio(voice, SENTENCE)
    audio(voice, "Something else.")
    assert np.array_equal(audio(voice, SENTENCE), before)


def test_two_clauses_may_be_made_in_turns(voice: PiperTts) -> None:
    one = voice.synthesize(SENTENCE, CTX, first=True)
    other = voice.synthesize("No, I would not do it like that.", CTX, first=True)
    pieces = [one.step().samples]
    other.step()
    while not (step := one.step()).last:
        pieces.append(step.samples)
        other.step()
    assert np.array_equal(np.concatenate([*pieces, step.samples]), audio(voice, SENTENCE))


def test_another_seed_is_another_sound(voice_path: Path, voice: PiperTts) -> None:
    other = PiperTts(voice_path, threads=1, seed=1)
    assert not np.array_equal(audio(other, SENTENCE), audio(voice, SENTENCE))


def test_speakers_differ_and_are_checked(tmp_path: Path) -> None:
    model = tiny_voice.tiny_model(speakers=2)
    path = tiny_voice.write_voice(tmp_path, model, speakers=2)
    first, second = PiperTts(path, threads=1), PiperTts(path, threads=1, speaker=1)
    assert not np.array_equal(audio(first, SENTENCE), audio(second, SENTENCE))
    whole = PiperTts(path, threads=1, speaker=1, pacing=WHOLE)
    np.testing.assert_allclose(audio(second, SENTENCE), audio(whole, SENTENCE), atol=1e-6)
    with pytest.raises(ConfigError, match="from 0 to 1"):
        PiperTts(path, speaker=2)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("$5.50", "five dollars and fifty cents"),
        ("at 7:05", "at seven oh five"),
        ("10 km/h", "ten kilometers per hour"),
        ("20°C", "twenty degrees celsius"),
        ("Dr. Smith is in.", "Doctor Smith is in."),
        ("5-10 people", "five to ten people"),
        ("in 1984", "in nineteen eighty four"),
        ("3/4", "three quarters"),
        ("555-1234", "five five five, one two three four"),
        ("1,234", "one thousand two hundred thirty four"),
        ("50%", "fifty percent"),
    ],
)
def test_what_is_written_sounds_like_what_is_said(voice: PiperTts, written: str, said: str) -> None:
    stress = {DEFAULT_IDS["ˈ"], DEFAULT_IDS["ˌ"], DEFAULT_IDS["_"], DEFAULT_IDS[" "]}
    sounds = [[i for u in voice.utterances(text) for i in u.ids if i not in stress] for text in (written, said)]
    assert sounds[0] == sounds[1]


# --- ending early, and errors ----------------------------------------------------------------


def test_cancel_ends_it_at_once(voice: PiperTts) -> None:
    synthesis = voice.synthesize(SENTENCE, CTX, first=True)
    assert not synthesis.step().last
    synthesis.cancel()
    synthesis.cancel()
    after = synthesis.step()
    assert after.last
    assert after.samples.shape == (0,)


def test_cancel_before_the_first_step_costs_no_work() -> None:
    def never() -> tuple[TtsStep, StepSize]:
        raise AssertionError("worked on a cancelled clause")

    synthesis = PiperSynthesis(iter(never, None), StepSize("first", 7))
    synthesis.cancel()
    assert synthesis.step().last


def test_a_step_after_the_last_is_empty(voice: PiperTts) -> None:
    synthesis = voice.synthesize("Yes.", CTX, first=True)
    while not synthesis.step().last:
        pass
    assert synthesis.step().samples.shape == (0,)


@pytest.mark.parametrize("scale", [0.0, -1.0, 5.0, float("nan")])
def test_an_impossible_length_scale_is_refused(voice_path: Path, scale: float) -> None:
    with pytest.raises(ConfigError) as caught:
        PiperTts(voice_path, length_scale=scale)
    assert caught.value.field == "length_scale"


def test_a_missing_file_is_named(tmp_path: Path, voice_path: Path) -> None:
    alone = tmp_path / "alone.onnx"
    with pytest.raises(ModelMissing, match=r"alone\.onnx\.json"):
        PiperTts(alone)
    description = voice_path.with_name("tiny.onnx.json").read_text("utf-8")
    alone.with_name("alone.onnx.json").write_text(description, "utf-8")
    with pytest.raises(ModelMissing, match=r"alone\.onnx "):
        PiperTts(alone)


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x07"])
def test_a_file_that_is_no_model_is_corrupt(tmp_path: Path, voice_path: Path, content: bytes) -> None:
    description = voice_path.with_name("tiny.onnx.json").read_text("utf-8")
    (tmp_path / "v.onnx.json").write_text(description, "utf-8")
    (tmp_path / "v.onnx").write_bytes(content)
    with pytest.raises(ModelCorrupt):
        PiperTts(tmp_path / "v.onnx")


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"audio": 1})])
def test_a_description_that_is_none_is_corrupt(tmp_path: Path, content: str) -> None:
    (tmp_path / "v.onnx.json").write_text(content, "utf-8")
    with pytest.raises(ModelCorrupt):
        PiperTts(tmp_path / "v.onnx")


# --- plans -----------------------------------------------------------------------------------


def test_windows_double_up_to_the_most() -> None:
    assert plan_windows(300, 24, 100, 12) == [(0, 24), (24, 72), (72, 168), (168, 268), (268, 300)]


def test_a_small_rest_joins_the_window_before_it() -> None:
    assert plan_windows(36, 24, 100, 12) == [(0, 36)]
    assert plan_windows(37, 24, 100, 12) == [(0, 24), (24, 37)]


@given(
    frames=st.integers(1, 2_000),
    first=st.integers(1, 300),
    most=st.integers(1, 200),
    reach=st.integers(0, 30),
)
def test_windows_cover_every_frame_once_and_stay_bounded(frames: int, first: int, most: int, reach: int) -> None:
    plan = plan_windows(frames, first, most, reach)
    assert [i for start, stop in plan for i in range(start, stop)] == list(range(frames))
    assert all(stop - start <= most + reach for start, stop in plan)


def test_a_long_sentence_is_cut_at_a_comma_rather_than_at_a_word() -> None:
    parts = split_phonemes("one two, three four", 14)
    assert ["".join(part) for part in parts] == ["one two, ", "three four"]


def test_an_early_comma_is_no_reason_for_a_short_part() -> None:
    parts = split_phonemes("a, bcdefg hijkl", 12)
    assert ["".join(part) for part in parts] == ["a, bcdefg ", "hijkl"]


@given(text=st.text(alphabet="ab ,.", max_size=120), most=st.integers(1, 30))
def test_no_phoneme_is_lost_and_no_part_is_too_long(text: str, most: int) -> None:
    parts = split_phonemes(list(text), most)
    assert "".join("".join(part) for part in parts) == text
    assert all(0 < len(part) <= most for part in parts)


# --- the real voice --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(piper_voice_path: Path) -> PiperTts:
    return PiperTts(piper_voice_path)


def level_dbfs(samples: Samples, rate_hz: int) -> list[float]:
    """Of each 10 ms window."""
    n = rate_hz // 100
    windows = samples[: len(samples) // n * n].reshape(-1, n)
    power = np.mean(np.square(windows), axis=1)
    return [float(x) for x in 10.0 * np.log10(power + 1e-12)]


@pytest.mark.models
def test_the_default_voice_is_cut(real: PiperTts) -> None:
    assert real.whole_because is None
    assert real.sample_rate_hz == 22_050


@pytest.mark.models
@pytest.mark.parametrize(
    "text", ["Sure.", SENTENCE, "The weather in Paris will be mild and sunny for most of tomorrow."]
)
def test_the_default_voice_in_pieces_is_the_whole(real: PiperTts, piper_voice_path: Path, text: str) -> None:
    whole = PiperTts(piper_voice_path, pacing=WHOLE)
    np.testing.assert_allclose(audio(real, text), audio(whole, text), atol=1e-4)


@pytest.mark.models
@pytest.mark.parametrize("text", ["Sure.", "Yes.", "Hello there!", SENTENCE, "And then,"])
def test_the_first_step_is_heard_at_once_and_is_short(real: PiperTts, text: str) -> None:
    first = steps(real, text)[0].samples
    levels = level_dbfs(first, real.sample_rate_hz)
    assert next(i for i, level in enumerate(levels) if level > -50.0) <= 1
    assert len(first) <= 0.3 * real.sample_rate_hz


@pytest.mark.models
def test_no_click_where_two_clauses_meet(real: PiperTts) -> None:
    """A jump at a join would be larger than any step between two samples of the speech itself."""
    one, two = audio(real, "Sure, I can do that."), audio(real, "Hello there!")
    joint = np.concatenate((one[-20:], two[:20]))
    inside = max(float(np.abs(np.diff(x)).max()) for x in (one, two))
    assert float(np.abs(np.diff(joint)).max()) < 0.05 * inside


@pytest.mark.models
def test_a_greater_length_scale_is_slower(real: PiperTts, piper_voice_path: Path) -> None:
    slow = PiperTts(piper_voice_path, length_scale=1.5)
    assert len(audio(slow, SENTENCE)) > 1.2 * len(audio(real, SENTENCE))
