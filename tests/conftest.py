"""Fixtures of the whole suite: the real models, fetched once into the user's cache."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from voicepipe.audio import write_wav
from voicepipe.errors import ModelError
from voicepipe.models.place import default_root
from voicepipe.models.store import ModelStore


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """Under nohup, and in a script's background, SIGINT is ignored, and so it would be by every process that a test
    begins and wants to interrupt."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def model() -> Callable[[str], Path]:
    """A known model by name; fetched where it is missing. Skips, with the reason, where it cannot be had."""
    store = ModelStore(default_root(os.environ))

    def ensure(name: str) -> Path:
        try:
            return store.ensure(name)
        except ModelError as exc:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"{name}: {exc.message}")

    return ensure


@pytest.fixture(scope="session")
def whisper_dir(model: Callable[[str], Path]) -> Path:
    """Whisper tiny.en as faster-whisper loads it."""
    return model("whisper-tiny.en")


@pytest.fixture(scope="session")
def whisper_base_dir(model: Callable[[str], Path]) -> Path:
    """Whisper base, multilingual: the larger one of second passes."""
    return model("whisper-base")


@pytest.fixture(scope="session")
def smollm2_path(model: Callable[[str], Path]) -> Path:
    """SmolLM2-135M-Instruct, a GGUF file."""
    return model("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def piper_voice_path(model: Callable[[str], Path]) -> Path:
    """The voice's .onnx, its .onnx.json beside it."""
    return model("piper-en_US-joe-medium")


@pytest.fixture(scope="session")
def speech_dir(model: Callable[[str], Path]) -> Path:
    """Real human speech: two_cities.wav, beckett.wav."""
    return model("speech-samples")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing here touches the user's cache."""
    monkeypatch.setenv("VOICEPIPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tone(tmp_path: Path) -> Path:
    """A second of what the scripted VAD takes for speech, in stereo at an odd rate."""
    samples = 0.3 * np.sin(np.arange(22_050) * 0.2)
    path = tmp_path / "tone.wav"
    write_wav(path, samples.astype(np.float32), 22_050)
    return path


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    """A server freezes what is loaded, once in a process. Here it would be once a test: what each leaves behind
    would never be collected."""
    yield
    gc.unfreeze()
