"""What is configured about admission, as core sees it."""

from __future__ import annotations

from typing import Any

import pytest

from voicepipe.config import Config, parse_config
from voicepipe.core.admission import Grant, Refuse, SessionRequest
from voicepipe.core.demand import Demand, Expected
from voicepipe.core.events import WorkKind
from voicepipe.core.policies import LimitPolicy
from voicepipe.core.quotas import Quota
from voicepipe.engines.table import plan
from voicepipe.entrance import (
    deadline_settings,
    health_settings,
    make_admission,
    make_policy,
    overload_settings,
    quota_of,
)

POLICIES = ("none", "count", "token-bucket", "aimd", "gradient", "vegas", "deadline")
FAST = Demand(frozenset(WorkKind), Expected(0.001, 0.001))


def config(**tables: Any) -> Config:
    return parse_config(tables)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_can_be_asked_for_and_none_passes_the_cap(name: str) -> None:
    chosen = config(admission={"policy": name, "burst": 10}, limits={"max_sessions": 3})
    admission = make_admission(chosen, make_policy(chosen, FAST))
    assert admission.snapshot().policy == name
    answers = [admission.on_connect(SessionRequest(), 0.0) for _ in range(5)]
    assert [type(answer) for answer in answers] == [Grant] * 3 + [Refuse] * 2
    assert {answer.reason for answer in answers if isinstance(answer, Refuse)} == {"capacity"}


@pytest.mark.parametrize("name", ["aimd", "gradient", "vegas"])
def test_what_is_learnt_begins_within_the_cap(name: str) -> None:
    for most in (1, 2, 100):
        chosen = config(admission={"policy": name}, limits={"max_sessions": most})
        policy = make_policy(chosen, FAST)
        assert isinstance(policy, LimitPolicy) and policy.limit == min(4, most)


def test_deadline_is_what_nobody_asked_for() -> None:
    assert make_policy(Config(), FAST).name == "deadline"


def test_the_deadlines_tests_go_by_the_configuration() -> None:
    settings = deadline_settings(
        config(
            budget_ms=300,
            max_reply_tokens=200,
            admission={
                "kv_pool_tokens": 16_000,
                "prompt_tokens": 1_000,
                "thinking_tokens": 400,
                "loop_lag_ms": 2.0,
                "late": 0.001,
            },
            engines={"context_tokens": 4096},
        )
    )
    assert (settings.budget_s, settings.overhead_s, settings.late) == (0.3, pytest.approx(0.002), 0.001)
    assert (settings.pool_tokens, settings.session_tokens, settings.slots) == (16_000, 1_600, 4)
    assert (settings.lag_s, settings.lag_again_s) == (0.002, 0.001)


def test_a_session_takes_no_more_than_its_context() -> None:
    assert deadline_settings(config(admission={"thinking_tokens": 30_000})).session_tokens == 2048
    assert deadline_settings(Config()).pool_tokens is None


def test_quotas_of_all_and_of_one() -> None:
    chosen = config(
        admission={"policy": "none", "per_token": {"sessions": 1}, "per_address": {"per_minute": 2}},
        tokens={"kiosk": {"env": "KIOSK", "quota": {"sessions": 2}}, "plain": {"env": "PLAIN"}},
    )
    admission = make_admission(chosen, make_policy(chosen, FAST))

    def ask(token: str, address: str = "") -> str:
        answer = admission.on_connect(SessionRequest(token=token, address=address), 0.0)
        return answer.reason if isinstance(answer, Refuse) else "in"

    assert [ask("kiosk"), ask("kiosk"), ask("kiosk")] == ["in", "in", "token-sessions"]
    assert [ask("plain"), ask("plain")] == ["in", "token-sessions"]
    chosen = config(admission={"policy": "none", "per_address": {"per_minute": 2}})
    admission = make_admission(chosen, make_policy(chosen, FAST))
    assert [ask("", "192.0.2.1") for _ in range(3)] == ["in", "in", "address-rate"]
    assert ask("", "192.0.2.2") == "in"


def test_nought_is_no_quota() -> None:
    assert quota_of(Config().admission.per_token) == Quota(None, None)


def test_the_waiting_room_is_off_unless_it_has_places() -> None:
    for places, waits in ((0, False), (2, True)):
        chosen = config(admission={"policy": "count", "waiting_places": places}, limits={"max_sessions": 1})
        admission = make_admission(chosen, make_policy(chosen, FAST))
        admission.on_connect(SessionRequest(), 0.0)
        answer = admission.on_connect(SessionRequest(may_wait=True), 0.0)
        assert isinstance(answer, Refuse) is not waits


def test_limits_of_overload_are_in_milliseconds() -> None:
    settings = overload_settings(
        config(overload={"loop_lag_ms": 5.0, "input_age_ms": 200.0, "backlog_ms": 400.0}).overload
    )
    assert (settings.loop_lag_s, settings.input_age_s, settings.backlog_s) == (0.005, 0.2, 0.4)


def test_an_embedded_model_is_not_entered_beside_a_lost_call_and_has_no_breaker() -> None:
    """It computes one call at a time for everybody; there is nobody to leave alone."""
    chosen = config(limits={"chunk_s": 3.0, "chunk_bounds": 4, "abandoned_chunks": 1, "engine_timeout_s": 8.0})
    where = plan(chosen.engines, 2)
    health = health_settings(chosen, where.alone, where.remote)
    assert (health.floor_s, health.bounds, health.unbounded_s, health.abandoned) == (3.0, 4, 8.0, 1)
    assert health.engines == dict.fromkeys((WorkKind.WARM, WorkKind.THINK, WorkKind.GENERATE), "llm")
    assert not health.breakers and not health.floors_s


def test_a_remote_model_has_a_breaker_and_its_own_limit_ends_a_call_first() -> None:
    """Which tells more than the device's."""
    chosen = config(engines={"llm": "http://127.0.0.1:1/v1", "llm_model": "m", "llm_failures": 7})
    where = plan(chosen.engines, 2)
    health = health_settings(chosen, where.alone, where.remote)
    kinds = {WorkKind.WARM, WorkKind.THINK, WorkKind.GENERATE}
    assert not health.engines and set(health.breakers) == kinds
    assert {settings.failures for _, settings in health.breakers.values()} == {7}
    assert health.floors_s == dict.fromkeys(kinds, chosen.engines.llm_timeout_s + 1.0)
    none = config(engines={"llm": "http://127.0.0.1:1/v1", "llm_model": "m", "llm_failures": 0})
    assert not health_settings(none, where.alone, where.remote).breakers


def test_scripted_engines_may_be_entered_at_any_time() -> None:
    """Each call is its own."""
    chosen = config(engines={"kind": "scripted"})
    where = plan(chosen.engines, 2)
    assert not health_settings(chosen, where.alone, where.remote).engines
