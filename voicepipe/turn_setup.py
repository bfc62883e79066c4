"""What a session's turns are set to: by the configuration, by its client, and by what the engines offer."""

from __future__ import annotations

from dataclasses import replace

from voicepipe.acknowledgements import at_rate
from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.events import Ask, Line, Rung, Tools
from voicepipe.core.patience import OPERATING_POINTS, Patience
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import ReplySettings, is_hurried
from voicepipe.core.turn_state import ELSEWHERE, OWN_MODEL, TurnSettings
from voicepipe.errors import Unsupported
from voicepipe.services import Services
from voicepipe.toolbox import check_choice, tools_of
from voicepipe.wire.messages import ReplyCreate, SessionStart, SessionUpdate


def turn_settings(
    services: Services, start: SessionStart | SessionUpdate, budget_ms: float, output_rate: int
) -> TurnSettings:
    """What the client asks for goes before what is configured. Raises BadField, and Unsupported for tools that the
    model cannot call."""
    if start.tools and not services.engines.llm.calls_tools:
        raise Unsupported(f"the model {services.engines.llm.name} does not call tools", field="tools")
    config, engines = services.config, services.engines
    enforcement = start.enforcement or config.enforcement
    ladder = () if enforcement == "observe" else config.ladder
    sounds = services.acknowledgements if Rung.ACKNOWLEDGE in ladder else ()
    fillers = services.fillers if Rung.FILLER in ladder else ()
    may_cut = Rung.SHORT_CLAUSE in ladder
    keeps_prefix = engines.llm.keeps_prefix
    return TurnSettings(
        reply=ReplySettings(
            PlayoutSettings(output_rate),
            max_tokens=min(start.max_reply_tokens or config.max_reply_tokens, config.max_reply_tokens),
            may_cut=may_cut,
            hurried=may_cut and is_hurried(services.work_s, budget_ms / 1000),
        ),
        patience=_patience(services, start),
        instructions=start.instructions or config.instructions,
        budget_s=budget_ms / 1000,
        shares=services.shares,
        enforce=enforcement == "enforce",
        acknowledge=AcknowledgeSettings(
            sounds=at_rate(sounds, engines.tts.sample_rate_hz, output_rate), one_in=config.acknowledge.one_in
        ),
        fillers=at_rate(fillers, engines.tts.sample_rate_hz, output_rate),
        second_pass=engines.asr_second is not None,
        may_skip_pass=Rung.NO_SECOND_PASS in ladder,
        may_shrink=Rung.SMALL_MODEL in ladder and engines.llm.has_small,
        manual=start.turn_taking == "manual",
        turn_model=engines.turn_model is not None,
        auto_reply=start.auto_reply and start.mode == "voice",
        spoken=start.reply_as == "speech",
        tools=tools_of(start.tools, start.tool_choice),
        warm=keeps_prefix,
        attempts=OWN_MODEL if keeps_prefix else ELSEWHERE,
        interruptible=start.interruptible,
        max_turn_s=config.limits.turn_s,
        engine_timeout_s=config.limits.engine_timeout_s,
        max_lines=config.limits.history_lines,
        max_chars=config.limits.history_chars,
    )


def _patience(services: Services, start: SessionStart | SessionUpdate) -> Patience:
    """A silence that the client has named holds whatever was said."""
    if start.silence_ms is None:
        return OPERATING_POINTS[start.operating_point or services.config.operating_point]
    silence_s = start.silence_ms / 1000
    return Patience("silence", ((0.0, silence_s),), open_s=silence_s)


def ask_of(create: ReplyCreate, tools: Tools) -> Ask:
    """`tools`: the session's. Raises BadField."""
    lines = None if create.lines is None else tuple(Line(line.role, line.text) for line in create.lines)
    return Ask(
        instructions=create.instructions,
        lines=lines,
        kept=create.keep,
        max_tokens=create.max_reply_tokens,
        spoken=None if create.reply_as is None else create.reply_as == "speech",
        tools=_asked_tools(create, tools),
    )


def _asked_tools(create: ReplyCreate, tools: Tools) -> Tools | None:
    """None where nothing is asked for."""
    if create.tools is not None:
        return tools_of(create.tools, create.tool_choice or "auto")
    if create.tool_choice is None:
        return None
    check_choice(create.tool_choice, [tool.name for tool in tools.those])
    return replace(tools, choice=create.tool_choice)
