"""Names of models that can be had, and names that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from voicepipe.errors import ConfigError
from voicepipe.models.catalog import Kind
from voicepipe.models.named import check_named


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("whisper-tiny.en", "asr"),
        ("base.en", "asr"),
        ("Systran/faster-whisper-small", "asr"),
        ("smollm2-135m-instruct", "llm"),
        ("{here}/model.gguf", "llm"),
        ("{here}", "asr"),
    ],
)
def test_what_can_be_had_passes(spec: str, kind: Kind, tmp_path: Path) -> None:
    """Known names, sizes, hub ids, and what lies there."""
    (tmp_path / "model.gguf").touch()
    check_named(spec.format(here=tmp_path), kind, "engines.x", "--x")


@pytest.mark.parametrize(
    ("spec", "kind", "says"),
    [
        ("{here}/nothing.gguf", "llm", "there is no model at"),
        ("smollm2", "llm", "no model is called 'smollm2'; did you mean"),
        ("large-v4", "asr", "no model is called 'large-v4'; did you mean large-v"),
        ("gpt-17", "llm", "no model is called 'gpt-17'; `voicepipe models`"),
        ("base.en", "llm", "no model is called 'base.en'"),
        ("whisper-tiny.en", "llm", "is a model for asr, not for llm"),
        ("{here}", "llm", "is no file"),
        ("{here}/model.gguf", "asr", "a faster-whisper model is a folder"),
    ],
)
def test_what_cannot_be_had_is_named(spec: str, kind: Kind, says: str, tmp_path: Path) -> None:
    """With the field and the option."""
    (tmp_path / "model.gguf").touch()
    with pytest.raises(ConfigError, match=says) as caught:
        check_named(spec.format(here=tmp_path), kind, "engines.x", "--x")
    assert caught.value.field == "engines.x" and "(--x)" in caught.value.message
