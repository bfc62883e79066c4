"""What is known, listed."""

from __future__ import annotations

import pytest

from voicepipe.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")


def test_models_lists_every_known_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, state, size, licence, hash."""
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    for name in ("whisper-tiny.en", "smollm2-135m-instruct", "piper-en_US-joe-medium", "smart-turn-v3.2"):
        assert name in shown
    assert "missing" in shown and "Apache-2.0" in shown
    assert "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53" in shown
