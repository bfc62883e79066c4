from __future__ import annotations

import pytest

from voicepipe.models.spec import HubId, hub_id, looks_like_path


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("Systran/faster-whisper-small", HubId("Systran/faster-whisper-small", None)),
        ("org/name:model.gguf", HubId("org/name", "model.gguf")),
        ("org/name:en/US/voice.onnx", HubId("org/name", "en/US/voice.onnx")),
        ("whisper-base", None),
        ("a/b/c", None),
        ("./org/name", None),
        ("models/mine.gguf", None),
        ("org/name:", None),
        ("org/name:../../secret", None),
        ("http://host/x", None),
        ("", None),
    ],
)
def test_hub_id(spec: str, wanted: HubId | None) -> None:
    assert hub_id(spec) == wanted


@pytest.mark.parametrize("spec", ["./x", "../x", "~/x", "/x", "a/b/c", "x.gguf", "models/x.onnx", "C:\\x"])
def test_paths(spec: str) -> None:
    assert looks_like_path(spec)


@pytest.mark.parametrize("spec", ["whisper-tiny.en", "org/name", "org/name:x.gguf", "large-v3", ""])
def test_not_paths(spec: str) -> None:
    assert not looks_like_path(spec)
