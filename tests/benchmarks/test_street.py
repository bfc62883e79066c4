"""A crowd in real time, over real sockets: as short as one question."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
import street
from arrivals import Call, Question
from caller import noise
from jobs import config_of
from replies import scripted_engines


def test_who_is_let_in_is_answered_and_who_is_refused_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """How soon is the machine's affair, and not this test's."""
    monkeypatch.setattr(street, "END_S", 0.3)
    config = config_of("count", 1)
    question = Question(0.2, 0.7)
    calls = [Call(0.0, 1.4, (question,)), Call(0.1, 1.4, (question,))]
    played = asyncio.run(street.walk(config, partial(scripted_engines, config), calls, noise, 0.0, 1.4))
    assert (played.admitted, played.refused, played.most) == (1, {"capacity": 1}, 1)
    refused, answered = sorted(played.asked, key=lambda asked: not asked.refused)
    assert (refused.call, refused.refused, answered.call) == (1, "capacity", 0)
    assert answered.record is not None and answered.felt_s < 5.0
    assert len(played.refusals_ms) == 1
