"""Arms change what they say, and nothing else of a scene."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from voicepipe.config import PolicyName
from voicepipe.core.events import WorkKind
from voicepipe.sim.arms import ARMS, EVERYBODY, ORACLE, WORDS, arm, called, in_words
from voicepipe.sim.caller import mean_session_s
from voicepipe.sim.experiment import Setting
from voicepipe.sim.scene import Scene, TextJobs, play
from voicepipe.sim.voice_scenes import calm_scene

SCENE = Scene(seed=3, sessions=5.0, texts=TextJobs(0.1))


@pytest.mark.parametrize("name", ARMS)
def test_callers_device_and_budget_are_the_same_for_all(name: str) -> None:
    """Only the machine, who is let in, whether texts run here, and what becomes of a late turn may differ."""
    changed = arm(name, SCENE, cap=4)
    differ = {field.name for field in fields(Scene) if getattr(changed, field.name) != getattr(SCENE, field.name)}
    assert differ <= {"machine", "admission", "texts", "max_sessions", "enforcement"}
    assert ("enforcement" in differ) == (name == "D8")


def test_who_is_let_in() -> None:
    """By name."""
    policies = {name: arm(name, SCENE).admission.policy for name in ARMS}
    learnt: dict[PolicyName, set[str]] = {"gradient": {"C1", "D6"}, "aimd": {"C3", "D5"}, "vegas": {"C4", "D7"}}
    told: dict[PolicyName, set[str]] = {"count": {"C5", "D1"}, "token-bucket": {"C6", "D4"}}
    for policy, names in (learnt | told).items():
        assert {name for name, own in policies.items() if own == policy} == names
    assert {name for name, policy in policies.items() if policy == "deadline"} == {"D2", "D3", "D8"}
    assert arm("D1", SCENE, cap=4).max_sessions == arm("C5", SCENE, cap=4).max_sessions == 4


def test_a_rate_is_that_of_as_many_sessions() -> None:
    """As would be under way at a time."""
    a_minute = arm("D4", SCENE, cap=40).admission.sessions_per_minute
    assert a_minute * mean_session_s(SCENE.habits) / 60.0 == pytest.approx(40.0, rel=0.02)


@pytest.mark.parametrize(
    ("names", "reason"), [("D5 D6 D7 C3 C4", "limit"), ("D4 C6", "rate"), ("D1 C5", "capacity"), ("D0", None)]
)
def test_each_refuses_for_its_own_reason(names: str, reason: str | None) -> None:
    """Four times as many callers as are carried; nobody but the overloaded server refuses for the others."""
    scene = Scene(seed=1, seconds=120.0, sessions=28.0)
    for name in names.split():
        reasons = {str(each.reason) for each in play(arm(name, scene)).refused}
        assert reasons - {"overload"} == ({reason} if reason else set()), name


def test_texts_run_where_there_is_one_device_for_all() -> None:
    """Not beside a dedicated one, unless in its slack."""
    assert {name for name in ARMS if arm(name, SCENE).texts is None} == {*"D0 D1 D2 D4 D5 D6 D7".split()}


def test_each_has_words_for_pictures() -> None:
    """And a name that is none stays what it is."""
    assert set(WORDS) == {*ARMS, ORACLE}
    assert all(called(name) == f"{name}: {words}" and len(words) > 20 for name, words in WORDS.items())
    assert called("easy") == "easy"
    assert in_words([{"arm": "D0", "late": 0.1}]) == [{"arm": called("D0"), "late": 0.1}]


def test_an_unknown_arm_is_a_bug() -> None:
    """Of ours."""
    with pytest.raises(AssertionError):
        arm("X", SCENE)


def test_every_arm_has_the_same_times() -> None:
    """Of the first final decode of each turn, whatever ran before it: arms are compared pair by pair. One in fifty
    may be another one, where the first was taken back before it ran."""
    scene = replace(calm_scene(3, Setting(), 6.0, 120.0), texts=TextJobs(0.1), keeps_chunks=True)
    found: list[dict[tuple[str, int], float]] = []
    for name in ("D0", "D3", "M0", "M4"):
        first: dict[tuple[str, int], float] = {}
        for work, timing, _ in play(replace(arm(name, scene), admission=EVERYBODY)).chunks:
            if work.kind is WorkKind.FINAL:
                first.setdefault((work.session, work.turn), round(timing.service_s, 9))
        found.append(first)
    alike = set.intersection(*(set(first) for first in found))
    assert len(alike) > 50
    other = sum(len({first[place] for first in found}) > 1 for place in alike)
    assert other <= len(alike) / 50, other
