"""Arms change what they say, and nothing else of a scene."""

from __future__ import annotations

from dataclasses import fields

import pytest

from voicepipe.sim.arms import ARMS, arm
from voicepipe.sim.scene import Scene, TextJobs

SCENE = Scene(seed=3, sessions=5.0, texts=TextJobs(0.1))


@pytest.mark.parametrize("name", ARMS)
def test_callers_device_and_budget_are_the_same_for_all(name: str) -> None:
    """Only the machine, who is let in, and whether texts run here may differ."""
    changed = arm(name, SCENE, cap=4)
    differ = {field.name for field in fields(Scene) if getattr(changed, field.name) != getattr(SCENE, field.name)}
    assert differ <= {"machine", "admission", "texts", "max_sessions"}


def test_who_is_let_in() -> None:
    """By name."""
    policies = {name: arm(name, SCENE).admission.policy for name in ARMS}
    assert policies["C1"] == "gradient" and policies["D1"] == "count"
    assert {name for name, policy in policies.items() if policy == "deadline"} == {"D2", "D3"}
    assert arm("D1", SCENE, cap=4).max_sessions == 4


def test_texts_run_where_there_is_one_device_for_all() -> None:
    """Not beside a dedicated one, unless in its slack."""
    assert {name for name in ARMS if arm(name, SCENE).texts is None} == {"D0", "D1", "D2"}


def test_an_unknown_arm_is_a_bug() -> None:
    """Of ours."""
    with pytest.raises(AssertionError):
        arm("X", SCENE)
