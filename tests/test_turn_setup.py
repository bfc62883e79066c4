"""What a session's turns are set to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from tests.driving import Recorder, engines
from voicepipe.config import Config, ScriptedConfig, parse_config
from voicepipe.core.events import Ask, Line, Tool, Tools
from voicepipe.core.patience import needed_silence_s
from voicepipe.core.reply import HURRIED_FROM
from voicepipe.core.turn_state import ELSEWHERE, OWN_MODEL, TurnSettings
from voicepipe.device import Device
from voicepipe.engines.scripted import ScriptedAsr, ScriptedLlm, ScriptedTurnModel
from voicepipe.errors import BadField, Unsupported
from voicepipe.services import Services
from voicepipe.turn_setup import ask_of, turn_settings
from voicepipe.wire.messages import (
    AudioFormat,
    HistoryLine,
    ReplyCreate,
    SessionStart,
    SessionUpdate,
    ToolSpec,
)

LADDER = ("short-clause", "no-second-pass", "small-model", "acknowledge", "filler")


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
    taken = settings(services(config, acknowledgements=sounds, fillers=sounds))
    assert len(taken.fillers) == 1
    assert taken.reply.may_cut and taken.may_skip_pass and len(taken.acknowledge.sounds) == 1
    none = settings(services(config, acknowledgements=sounds, fillers=sounds), started(enforcement="observe"))
    assert not none.fillers
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


# --- silence, tools, and replies that are asked for

CLOCK = ToolSpec("clock", "Tells the time.", {"type": "object"})


def test_a_silence_that_is_asked_for_holds_whatever_was_said() -> None:
    patience = settings(start=started(silence_ms=700.0, operating_point="fast")).patience
    for text in ("What is the time?", "I want to", "Hello"):
        assert needed_silence_s(text, None, patience) == 0.7
    assert patience.quiet_s is None


def test_an_update_is_a_start_without_its_beginning() -> None:
    given = {"instructions": "Be brief.", "turn_taking": "manual", "reply_as": "text", "max_reply_tokens": 5}
    asked = settings(start=started(**given))
    updated = turn_settings(services(), SessionUpdate(**given), 200.0, 16_000)
    assert asked == updated
    assert (asked.manual, asked.spoken, asked.reply.max_tokens) == (True, False, 5)


def test_no_reply_is_longer_than_the_server_makes_them() -> None:
    assert settings(services(Config(max_reply_tokens=50)), started(max_reply_tokens=60)).reply.max_tokens == 50


def test_tools_are_for_models_that_call_them() -> None:
    asked = settings(start=started(tools=(CLOCK,), tool_choice="clock"))
    assert asked.tools == Tools((Tool("clock", "Tells the time.", '{"type":"object"}'),), "clock")
    deaf = services()
    cast("ScriptedLlm", deaf.engines.llm).calls_tools = False
    with pytest.raises(Unsupported, match="does not call tools"):
        settings(deaf, started(tools=(CLOCK,)))
    settings(deaf)


def test_a_reply_that_is_asked_for() -> None:
    tools = Tools((Tool("clock", "", "{}"),))
    assert ask_of(ReplyCreate(), tools) == Ask()
    create = ReplyCreate(
        "Whisper.", lines=(HistoryLine("user", "Hi."),), keep=False, reply_as="text", max_reply_tokens=3
    )
    assert ask_of(create, tools) == Ask("Whisper.", (Line("user", "Hi."),), kept=False, max_tokens=3, spoken=False)
    assert ask_of(ReplyCreate(tool_choice="clock"), tools).tools == replace(tools, choice="clock")
    assert ask_of(ReplyCreate(tools=()), tools).tools == Tools()
    for wrong in (ReplyCreate(tool_choice="required"), ReplyCreate(tools=(), tool_choice="clock")):
        with pytest.raises(BadField, match="tool_choice"):
            ask_of(wrong, Tools())
