"""What a session's turns are set to: by the configuration, by its client, and by what the engines offer."""

from __future__ import annotations

from voicepipe.acknowledgements import at_rate
from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.events import Rung
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import ReplySettings, is_hurried
from voicepipe.core.turn_state import ELSEWHERE, OWN_MODEL, TurnSettings
from voicepipe.services import Services
from voicepipe.wire.messages import SessionStart


def turn_settings(services: Services, start: SessionStart, budget_ms: float, output_rate: int) -> TurnSettings:
    """What the client asks for goes before what is configured."""
    config, engines = services.config, services.engines
    enforcement = start.enforcement or config.enforcement
    ladder = () if enforcement == "observe" else config.ladder
    sounds = services.acknowledgements if Rung.ACKNOWLEDGE in ladder else ()
    may_cut = Rung.SHORT_CLAUSE in ladder
    keeps_prefix = engines.llm.keeps_prefix
    return TurnSettings(
        reply=ReplySettings(
            PlayoutSettings(output_rate),
            max_tokens=config.max_reply_tokens,
            may_cut=may_cut,
            hurried=may_cut and is_hurried(services.work_s, budget_ms / 1000),
        ),
        patience=OPERATING_POINTS[start.operating_point or config.operating_point],
        instructions=start.instructions or config.instructions,
        budget_s=budget_ms / 1000,
        shares=services.shares,
        enforce=enforcement == "enforce",
        acknowledge=AcknowledgeSettings(
            sounds=at_rate(sounds, engines.tts.sample_rate_hz, output_rate), one_in=config.acknowledge.one_in
        ),
        second_pass=engines.asr_second is not None,
        may_skip_pass=Rung.NO_SECOND_PASS in ladder,
        may_shrink=Rung.SMALL_MODEL in ladder and engines.llm.has_small,
        manual=start.turn_taking == "manual",
        turn_model=engines.turn_model is not None,
        auto_reply=start.auto_reply and start.mode == "voice",
        warm=keeps_prefix,
        attempts=OWN_MODEL if keeps_prefix else ELSEWHERE,
        interruptible=start.interruptible,
        max_turn_s=config.limits.turn_s,
        engine_timeout_s=config.limits.engine_timeout_s,
    )
