"""What one token or one address may take."""

from __future__ import annotations

import pytest

from voicepipe.core.quotas import MAX_KNOWN, Exceeded, Quota, Quotas, QuotaSettings

HOUSE = "198.51.100.7"


def test_a_token_has_so_many_sessions_at_once() -> None:
    quotas = Quotas(QuotaSettings(token=Quota(sessions=2)))
    for _ in range(2):
        assert quotas.check("kiosk", HOUSE, 0.0) is None
        quotas.take("kiosk", HOUSE, 0.0)
    assert quotas.check("kiosk", HOUSE, 0.0) == Exceeded("token-sessions", None, held=2)
    assert quotas.check("lobby", HOUSE, 0.0) is None
    quotas.give_back("kiosk", HOUSE, 5.0)
    assert quotas.check("kiosk", HOUSE, 5.0) is None


def test_a_token_has_so_many_sessions_per_minute_even_if_they_are_short() -> None:
    quotas = Quotas(QuotaSettings(token=Quota(per_minute=3)))
    for _ in range(3):
        assert quotas.check("kiosk", "", 10.0) is None
        quotas.take("kiosk", "", 10.0)
        quotas.give_back("kiosk", "", 10.0)
    exceeded = quotas.check("kiosk", "", 10.0)
    assert exceeded == Exceeded("token-rate", pytest.approx(20.0))
    assert quotas.check("kiosk", "", 30.0) is None


def test_a_quota_of_its_own_goes_before_that_of_all() -> None:
    quotas = Quotas(QuotaSettings(token=Quota(sessions=1), tokens={"house": Quota(sessions=2)}))
    for name, most in (("house", 2), ("kiosk", 1)):
        for _ in range(most):
            quotas.take(name, "", 0.0)
        assert quotas.check(name, "", 0.0) == Exceeded("token-sessions", None, held=most)


def test_an_address_has_its_own_whatever_tokens_it_shows() -> None:
    quotas = Quotas(QuotaSettings(address=Quota(sessions=1)))
    quotas.take("one", HOUSE, 0.0)
    assert quotas.check("two", HOUSE, 0.0) == Exceeded("address-sessions", None, held=1)
    assert quotas.check("two", "198.51.100.8", 0.0) is None
    assert quotas.check("two", "", 0.0) is None  # many behind a proxy


def test_who_checks_takes_nothing() -> None:
    quotas = Quotas(QuotaSettings(address=Quota(sessions=1, per_minute=1)))
    for _ in range(5):
        assert quotas.check("", HOUSE, 0.0) is None


def test_a_flood_of_addresses_is_forgotten_and_those_with_sessions_are_not() -> None:
    quotas = Quotas(QuotaSettings(address=Quota(sessions=1)))
    quotas.take("", HOUSE, 0.0)
    for number in range(3 * MAX_KNOWN):
        assert quotas.check("", f"2001:db8::{number:x}", 0.0) is None
    assert len(quotas) <= MAX_KNOWN
    assert quotas.check("", HOUSE, 0.0) == Exceeded("address-sessions", None, held=1)


def test_without_quotas_nothing_is_kept() -> None:
    quotas = Quotas(QuotaSettings())
    quotas.take("kiosk", HOUSE, 0.0)
    assert quotas.check("kiosk", HOUSE, 0.0) is None and len(quotas) == 0
    quotas.give_back("kiosk", HOUSE, 0.0)


def test_giving_back_what_was_not_taken_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Quotas(QuotaSettings(address=Quota(sessions=1))).give_back("", HOUSE, 0.0)


@pytest.mark.parametrize("values", [{"sessions": 0}, {"per_minute": 0}, {"sessions": -1}])
def test_a_quota_of_nothing_is_refused_at_birth(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Quota(**values)
