"""Fixtures of the core's tests."""

from __future__ import annotations

import pytest

from tests.core.sentences import Sentences


@pytest.fixture
def plain_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clause is a sentence, however long."""
    monkeypatch.setattr("voicepipe.core.reply.ClauseSplitter", Sentences)
