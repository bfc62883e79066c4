"""The turn model: what it is shown, what it refuses, and whom the real one believes to have finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from voicepipe.audio import Samples, read_wav, resample  # noqa: E402
from voicepipe.engines.base import Context, TurnModel  # noqa: E402
from voicepipe.engines.features import mel_filters  # noqa: E402
from voicepipe.engines.smart_turn import HEARD_SAMPLES, TAIL_SAMPLES, WINDOW_SAMPLES, SmartTurn  # noqa: E402
from voicepipe.errors import EngineError, ModelCorrupt, ModelError, ModelMissing  # noqa: E402

CTX = Context("session", turn=1, epoch=1, revision=0)
RATE_HZ = 16_000


def write_model(path: Path, *, frames: int = 800, scale: float = 1.0) -> Path:
    """A network of that shape without weights: the sigmoid of `scale` times the mean of the features."""
    nodes = [
        helper.make_node("ReduceMean", ["input_features", "axes"], ["mean"], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "last"], ["column"]),
        helper.make_node("Mul", ["column", "scale"], ["scaled"]),
        helper.make_node("Sigmoid", ["scaled"], ["logits"]),
    ]
    constants = [
        numpy_helper.from_array(np.array([1, 2], np.int64), "axes"),
        numpy_helper.from_array(np.array([1], np.int64), "last"),
        numpy_helper.from_array(np.array([scale], np.float32), "scale"),
    ]
    takes = helper.make_tensor_value_info("input_features", TensorProto.FLOAT, ["n", 80, frames])
    gives = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 1])
    graph = helper.make_graph(nodes, "tiny", [takes], [gives], constants)
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> SmartTurn:
    return SmartTurn(write_model(tmp_path / "tiny.onnx"))


def tone(seconds: float, *, level: float = 0.1) -> Samples:
    t = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    return (level * np.sin(2 * np.pi * 300 * t)).astype(np.float32)


# --- what it is shown --------------------------------------------------------------------------------------


def test_it_is_a_turn_model(tiny: SmartTurn) -> None:
    model: TurnModel = tiny
    assert (model.placement, model.name) == ("thread", "smart-turn-v3")


@pytest.mark.parametrize("seconds", [0.05, 1.0, 7.808, 8.0, 30.0])
def test_a_window_is_eight_seconds_however_long_the_audio(tiny: SmartTurn, seconds: float) -> None:
    audio = tone(seconds)
    assert tiny.features(audio[-HEARD_SAMPLES:]).shape == (80, 800)
    assert 0.0 < tiny.completeness(audio, CTX) < 1.0


def test_speech_stands_before_192_ms_of_silence_at_the_end(tiny: SmartTurn) -> None:
    loudest = tiny.features(tone(1.0)).max(axis=0)
    tail, sound = TAIL_SAMPLES // 160, RATE_HZ // 160
    assert round(0.192 * RATE_HZ) == TAIL_SAMPLES
    assert loudest[-tail - sound + 2 : -tail - 2].min() > loudest[-tail + 2 :].max() + 1.0
    assert loudest[-tail - sound + 2 : -tail - 2].min() > loudest[: -tail - sound - 2].max() + 1.0


def test_the_features_are_those_of_the_window_at_unit_variance(tiny: SmartTurn) -> None:
    """Computed here once more, frame by frame, in double precision: 400 samples around each multiple of 160, the
    audio mirrored at its ends."""
    heard = (np.random.default_rng(1).standard_normal(3 * RATE_HZ) * 0.05).astype(np.float32) + np.float32(0.01)
    window = np.concatenate([np.zeros(HEARD_SAMPLES - len(heard)), heard, np.zeros(TAIL_SAMPLES)])
    level = (window - window.mean()) / np.sqrt(window.var() + 1e-7)
    mirrored = np.pad(level, 200, mode="reflect")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    power = [np.abs(np.fft.rfft(mirrored[at : at + 400] * hann)) ** 2 for at in range(0, WINDOW_SAMPLES, 160)]
    log = np.log10(np.maximum(mel_filters(80).astype(np.float64) @ np.array(power).T, 1e-10))
    expected = (np.maximum(log, log.max() - 8.0) + 4.0) / 4.0
    np.testing.assert_allclose(tiny.features(heard), expected, atol=1e-4)


def test_how_loud_somebody_speaks_makes_no_difference(tiny: SmartTurn) -> None:
    quiet, loud = tiny.features(tone(1.0, level=0.02)), tiny.features(tone(1.0, level=0.8))
    np.testing.assert_allclose(quiet, loud, atol=0.01)


def test_only_the_last_seconds_count(tiny: SmartTurn) -> None:
    audio = tone(8.0)
    before = np.random.default_rng(0).standard_normal(5 * RATE_HZ).astype(np.float32)
    longer = np.concatenate([before, audio[-HEARD_SAMPLES:]])
    assert tiny.completeness(longer, CTX) == tiny.completeness(audio, CTX)


@pytest.mark.parametrize("level", [0.0, 1e-4])
def test_silence_is_not_shown_to_it(tiny: SmartTurn, level: float) -> None:
    """The network would call it complete; nobody has said anything."""
    hiss = np.random.default_rng(0).standard_normal(RATE_HZ).astype(np.float32) * np.float32(level)
    assert tiny.completeness(hiss, CTX) == 0.0
    assert tiny.completeness(hiss[:0], CTX) == 0.0


def test_samples_that_are_no_numbers_count_as_silence(tiny: SmartTurn) -> None:
    audio = tone(1.0)
    bad, clean = audio.copy(), audio.copy()
    bad[100:103] = (np.nan, np.inf, -np.inf)
    clean[100:103] = 0.0
    assert tiny.completeness(bad, CTX) == tiny.completeness(clean, CTX)
    assert np.isnan(bad[100])


# --- what goes wrong ---------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"none\.onnx"):
        SmartTurn(tmp_path / "none.onnx")


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x08\x07"])
def test_a_file_that_is_no_model_is_corrupt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelCorrupt, match=r"bad\.onnx"):
        SmartTurn(path)


def test_another_network_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no smart-turn v3 model") as caught:
        SmartTurn(write_model(tmp_path / "other.onnx", frames=3000))
    assert not isinstance(caught.value, ModelCorrupt)


def test_an_answer_that_is_no_probability_is_an_error(tmp_path: Path) -> None:
    model = SmartTurn(write_model(tmp_path / "nan.onnx", scale=float("nan")))
    with pytest.raises(EngineError, match="no probability"):
        model.completeness(tone(1.0), CTX)


# --- the real model ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(model: Callable[[str], Path]) -> SmartTurn:
    return SmartTurn(model("smart-turn-v3.2"))


@pytest.fixture(scope="module")
def reading(speech_dir: Path) -> Samples:
    samples, rate_hz = read_wav(speech_dir / "two_cities.wav", max_seconds=60)
    return resample(samples, rate_hz, RATE_HZ)


def cut(reading: Samples, start_s: float, end_s: float) -> Samples:
    return reading[int(start_s * RATE_HZ) : int(end_s * RATE_HZ)]


@pytest.mark.models
@pytest.mark.parametrize(
    ("start_s", "end_s"),
    [
        (1.1, 4.58),  # "It was the best of times, it was the worst of times."
        (4.95, 8.25),  # "... it was the age of foolishness."
        (13.4, 16.73),  # "... it was the season of darkness."
        (17.5, 20.5),  # "... it was the winter of despair."
        (21.2, 24.05),  # "... we had nothing before us."
    ],
)
def test_a_finished_sentence_scores_above_the_same_cut_short(
    real: SmartTurn, reading: Samples, start_s: float, end_s: float
) -> None:
    """Cut off are its last 0.9 to 1.2 s: within "it was the", "we had" and the like."""
    whole = real.completeness(cut(reading, start_s, end_s), CTX)
    short = [real.completeness(cut(reading, start_s, end_s - back_s), CTX) for back_s in (0.9, 1.0, 1.1, 1.2)]
    assert whole > 0.5
    assert max(short) < 0.4


@pytest.mark.models
def test_the_zeros_stand_in_for_silence(real: SmartTurn, reading: Samples) -> None:
    """Right behind the last sound it answers as it does 100 ms later."""
    at_once = real.completeness(cut(reading, 17.5, 20.46), CTX)
    later = real.completeness(np.append(cut(reading, 17.5, 20.46), np.zeros(1600, np.float32)), CTX)
    assert at_once == pytest.approx(later, abs=0.3)
    assert (at_once > 0.5) == (later > 0.5)


@pytest.mark.models
def test_more_threads_change_nothing(real: SmartTurn, reading: Samples, model: Callable[[str], Path]) -> None:
    other = SmartTurn(model("smart-turn-v3.2"), threads=2)
    phrase = cut(reading, 21.2, 24.05)
    assert other.completeness(phrase, CTX) == pytest.approx(real.completeness(phrase, CTX), abs=0.02)
