"""What the load benchmark is asked for."""

from __future__ import annotations

import pytest
from load import ALL, OFFERED_FULL, POLICIES, arguments


def test_without_flags_it_is_none_and_deadline() -> None:
    assert arguments([]).policies == POLICIES
    full = arguments(["--full"])
    assert (full.policies, full.offered) == (ALL, OFFERED_FULL)
    assert full.turns > arguments([]).turns


def test_a_policy_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--policies", "none,hope"])
    assert "--policies" in capsys.readouterr().err
