"""What is configured about admission and about engines that fail, as the core's objects."""

from __future__ import annotations

from collections.abc import Mapping

from voicepipe.config import AdmissionConfig, Config, OverloadConfig, QuotaConfig, ResumeConfig
from voicepipe.core.admission import Reason, SessionAdmission
from voicepipe.core.breaker import BreakerSettings
from voicepipe.core.deadline import DeadlineSettings
from voicepipe.core.demand import Demand
from voicepipe.core.engine_health import HealthSettings
from voicepipe.core.events import WorkKind
from voicepipe.core.limits import AimdLimit, FixedLimit, GradientLimit, TokenBucket, VegasLimit
from voicepipe.core.overload import OverloadSettings
from voicepipe.core.parking import ParkingSettings
from voicepipe.core.policies import DeadlinePolicy, LimitPolicy, OpenPolicy, Policy, RatePolicy
from voicepipe.core.quotas import Quota, QuotaSettings
from voicepipe.core.room import RoomSettings
from voicepipe.core.turn_state import DOWNLINK_S

LIMIT_MARGIN_S = 1.0
"""By which the device lets a call take longer than the limit that its engine has itself."""


def make_admission(config: Config, policy: Policy) -> SessionAdmission:
    admission = config.admission
    return SessionAdmission(
        policy,
        max_sessions=config.limits.max_sessions,
        quotas=QuotaSettings(
            token=quota_of(admission.per_token),
            tokens={name: quota_of(own) for name, token in config.tokens.items() if (own := token.quota)},
            address=quota_of(admission.per_address),
        ),
        room=RoomSettings(admission.waiting_places, admission.waiting_s),
    )


def make_policy(config: Config, demand: Demand) -> Policy:
    """`demand` is what `deadline` admits by."""
    admission, most = config.admission, float(config.limits.max_sessions)
    match admission.policy:
        case "none":
            return OpenPolicy()
        case "count":
            return LimitPolicy("count", FixedLimit(config.limits.max_sessions), Reason.CAPACITY)
        case "token-bucket":
            return RatePolicy(TokenBucket(admission.sessions_per_minute / 60.0, admission.burst))
        case "aimd":
            return LimitPolicy("aimd", AimdLimit(min(4.0, most), most=most), Reason.LIMIT)
        case "gradient":
            return LimitPolicy("gradient", GradientLimit(min(4.0, most), most=most), Reason.LIMIT)
        case "vegas":
            return LimitPolicy("vegas", VegasLimit(min(4.0, most), most=most), Reason.LIMIT)
        case "deadline":
            return DeadlinePolicy(demand, deadline_settings(config))


def deadline_settings(config: Config) -> DeadlineSettings:
    admission = config.admission
    return DeadlineSettings(
        budget_s=config.budget_ms / 1000,
        overhead_s=DOWNLINK_S,
        utilisation=admission.utilisation,
        late=admission.late,
        slots=config.limits.max_sessions,
        pool_tokens=admission.kv_pool_tokens or None,
        session_tokens=_session_tokens(config, admission),
        lag_s=admission.loop_lag_ms / 1000,
        lag_again_s=admission.loop_lag_ms / 2000,
    )


def overload_settings(config: OverloadConfig) -> OverloadSettings:
    return OverloadSettings(config.loop_lag_ms / 1000, config.input_age_ms / 1000, config.backlog_ms / 1000)


def health_settings(config: Config, alone: Mapping[str, str], remote: frozenset[str]) -> HealthSettings:
    """`alone`: work kinds whose engine computes one call at a time, with its name; `remote`: those behind a URL."""
    limits, engines = config.limits, config.engines
    kinds = [WorkKind(kind) for kind in sorted(remote)]
    breaker = ("llm", BreakerSettings(engines.llm_failures))
    return HealthSettings(
        floor_s=limits.chunk_s,
        bounds=limits.chunk_bounds,
        unbounded_s=limits.engine_timeout_s,
        # It ends by itself, and tells why.
        floors_s=dict.fromkeys(kinds, max(limits.chunk_s, engines.llm_timeout_s + LIMIT_MARGIN_S)),
        abandoned=limits.abandoned_chunks,
        engines={WorkKind(kind): name for kind, name in alone.items()},
        breakers=dict.fromkeys(kinds, breaker) if engines.llm_failures else {},
    )


def quota_of(config: QuotaConfig) -> Quota:
    return Quota(config.sessions or None, config.per_minute or None)


def _session_tokens(config: Config, admission: AdmissionConfig) -> int:
    """All of them may be in use at once: an answer is attended to while it is made, and so are thoughts."""
    tokens = admission.prompt_tokens + admission.thinking_tokens + config.max_reply_tokens
    return min(tokens, config.engines.context_tokens)


def parking_settings(resume: ResumeConfig) -> ParkingSettings:
    return ParkingSettings(resume.keep_s, resume.most, resume.most_bytes)
