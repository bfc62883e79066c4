"""What a session's turns are set to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from tests.driving import Recorder, engines
from voicepipe.config import Config, ScriptedConfig, parse_config
from voicepipe.core.reply import HURRIED_FROM
from voicepipe.core.turn_state import ELSEWHERE, OWN_MODEL, TurnSettings
from voicepipe.device import Device
from voicepipe.engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTurnModel
from voicepipe.services import Services
from voicepipe.turn_setup import turn_settings
from voicepipe.wire.messages import AudioFormat, SessionStart

LADDER = ("short-clause", "no-second-pass", "small-model", "acknowledge")


class ElsewhereLlm(ScriptedLlm):
    """Behind a URL."""

    keeps_prefix = False


def services(config: Config | None = None, **known: Any) -> Services:
    device = cast("Device", None)  # no turn has one
    return replace(Services(engines(), device, config or Config(), Recorder()), **known)


def started(**asked: Any) -> SessionStart:
    return SessionStart(audio=AudioFormat(rate=16_000), protocol="voicepipe.v1", **asked)


def settings(
    of: Services | None = None, start: SessionStart | None = None, budget_ms: float = 200.0
) -> TurnSettings:
    return turn_settings(of or services(), start or started(), budget_ms, 16_000)


def test_what_the_client_asks_for_goes_before_what_is_configured() -> None:
    config = parse_config({"operating_point": "safe", "instructions": "Be brief.", "enforcement": "enforce"})
    configured = settings(services(config))
    assert (configured.patience.name, configured.instructions, configured.enforce) == ("safe", "Be brief.", True)
    start = started(operating_point="fast", instructions="Be kind.", enforcement="degrade")
    asked = settings(services(config), start, 350.0)
    assert (asked.patience.name, asked.instructions, asked.enforce) == ("fast", "Be kind.", False)
    assert asked.budget_s == 0.35


def test_who_only_observes_takes_no_rung() -> None:
    """Whatever the ladder has."""
    sounds = (np.zeros(480, np.float32),)
    config = parse_config({"ladder": list(LADDER)})
    taken = settings(services(config, acknowledgements=sounds))
    assert taken.reply.may_cut and taken.may_skip_pass and len(taken.acknowledge.sounds) == 1
    none = settings(services(config, acknowledgements=sounds), started(enforcement="observe"))
    assert not (none.reply.may_cut or none.may_skip_pass or none.may_shrink or none.acknowledge.sounds)


@pytest.mark.parametrize(("work_s", "hurried"), [(HURRIED_FROM * 0.2, False), (HURRIED_FROM * 0.2 + 0.001, True)])
def test_first_clauses_are_short_from_the_start_where_work_takes_half_the_budget(
    work_s: float, hurried: bool
) -> None:
    assert settings(services(work_s=work_s)).reply.hurried is hurried
    without = parse_config({"ladder": []})
    assert not settings(services(without, work_s=work_s)).reply.hurried


def test_a_model_that_keeps_no_prefix_is_asked_less_often() -> None:
    """And reads nothing ahead."""
    here, there = settings(), settings(services(engines=engines(llm=ElsewhereLlm(ScriptedConfig(), 1))))
    assert (here.attempts, here.warm) == (OWN_MODEL, True)
    assert (there.attempts, there.warm) == (ELSEWHERE, False)


def test_what_there_is_no_engine_for_is_not_asked_for() -> None:
    plain = settings()
    assert not plain.second_pass and not plain.turn_model
    scripted = ScriptedConfig()
    more = engines(asr_second=ScriptedAsr(scripted), turn_model=ScriptedTurnModel(scripted))
    equipped = settings(services(engines=more))
    assert equipped.second_pass and equipped.turn_model


def test_only_a_voice_is_answered_unasked() -> None:
    """Transcription is not, nor a client that asks for each reply."""
    assert settings().auto_reply
    assert not settings(start=started(mode="transcription")).auto_reply
    assert not settings(start=started(auto_reply=False)).auto_reply
    assert settings(start=started(turn_taking="manual")).manual
