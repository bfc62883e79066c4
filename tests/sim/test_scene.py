"""Scenes: the same bytes from the same seed, and what must hold of every run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from statistics import mean, median

import pytest

from voicepipe.config import AdmissionConfig, OverloadConfig
from voicepipe.core.events import Verdict, Work
from voicepipe.core.scheduler import Discard, Reject, Run
from voicepipe.errors import ConfigError
from voicepipe.sim.caller import Habits
from voicepipe.sim.machine import MachineSnapshot, SchedulerMachine
from voicepipe.sim.scene import Played, Scene, TextJobs, play
from voicepipe.sim.service import ServiceModel, load_service

SHORT = Scene(sessions=8.0, seconds=90.0)
OPEN = AdmissionConfig(policy="none")
SCENES = {
    "as it is": SHORT,
    "scripted": replace(SHORT, service=load_service("scripted")),
    "nobody refused, far too many": replace(SHORT, sessions=60.0, admission=OPEN),
    "enforced": replace(SHORT, sessions=25.0, admission=OPEN, enforcement="enforce"),
    "every rung": replace(
        SHORT,
        sessions=20.0,
        admission=OPEN,
        second_pass=True,
        ladder=("short-clause", "no-second-pass", "small-model", "acknowledge"),
    ),
    "texts in slack": replace(SHORT, texts=TextJobs(0.5, (500, 2000), (50, 200))),
    "texts first come": replace(SHORT, texts=TextJobs(0.5, (500, 2000), (50, 200)), pool="monolithic"),
    "hard of hearing": replace(
        SHORT,
        habits=Habits(misheard=0.6, rethought=0.5, marked=0.6, pause=0.3, unmarked=0.3, unsaid=0.1, barge_in=0.6),
    ),
    "patient": replace(SHORT, operating_point="safe"),
    "sheds early": replace(SHORT, sessions=40.0, admission=OPEN, overload=OverloadConfig(backlog_ms=10.0)),
}


def verdicts(played: Played) -> Counter[Verdict | None]:
    return Counter(None if asked.record is None else asked.record.verdict for asked in played.asked)


def lateness(played: Played) -> float:
    """Share of those that the promise was made to."""
    counted = [asked for asked in played.asked if asked.counts]
    return 1.0 - sum(asked.kept for asked in counted) / len(counted)


@pytest.mark.parametrize("name", SCENES)
def test_what_holds_of_every_run(name: str) -> None:
    """That no lane has more chunks than it has room for, that each turn has one verdict and that nothing of a reply
    leaves before its commit is asserted while it runs."""
    scene = SCENES[name]
    played = play(scene)
    assert played.leases == {"session": 0, "llm": 0, "text": 0}
    assert all(scene.begin_s <= asked.end < scene.begin_s + scene.seconds for asked in played.asked)
    places = [(asked.call, asked.number) for asked in played.asked]
    assert places == sorted(set(places)) and places
    for asked in played.asked:
        record = asked.record
        if record is not None and record.instants.sent is not None:
            assert record.instants.commit is not None and record.instants.commit <= record.instants.sent
    for lane in {lane for lane, _ in played.busy_s}:
        busy_s = sum(one for (other, _), one in played.busy_s.items() if other == lane)
        assert busy_s <= scene.service.lanes[lane] * played.ran_s
    assert sum(verdicts(played).values()) == len(played.asked)
    assert played.turns >= sum(asked.record is not None for asked in played.asked)


@pytest.mark.parametrize("name", ["as it is", "every rung", "texts in slack"])
def test_the_same_seed_gives_the_same_bytes(name: str) -> None:
    scene = replace(SCENES[name], keeps_chunks=True)
    first = repr(play(scene))
    assert repr(play(scene)) == first != repr(play(replace(scene, seed=2)))


def test_the_same_seed_gives_the_same_bytes_in_every_process() -> None:
    """Whatever strings hash to there."""
    program = (
        "from voicepipe.sim.scene import *; from hashlib import sha256; "
        "scene = Scene(sessions=10.0, seconds=40.0, texts=TextJobs(0.5, (500, 900)), keeps_chunks=True); "
        "print(sha256(repr(play(scene)).encode()).hexdigest())"
    )

    def digest(seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        return done.stdout.decode().strip()

    assert len(digest("1")) == 64 and digest("1") == digest("2")


def test_every_arm_is_asked_the_same() -> None:
    scenes = (SHORT, replace(SHORT, admission=OPEN), replace(SHORT, operating_point="safe"))
    asked = [[one.said for one in play(scene).asked] for scene in scenes]
    assert asked[0] == asked[1] == asked[2]


class _Watched(SchedulerMachine):
    """Notes how much waits as often as it is looked at, and how long each waited that ran or was dropped."""

    lengths: list[int]
    waits_s: list[float]

    def snapshot(self) -> MachineSnapshot:
        snapshot = super().snapshot()
        self.lengths.append(snapshot.queued)
        return snapshot

    def _start(self, run: Run, granted: float) -> None:
        self._note(run.work)
        super()._start(run, granted)

    def _refuse(self, command: Discard | Reject) -> None:
        self._note(command.work)
        super()._refuse(command)

    def _note(self, work: Work) -> None:
        self.waits_s.append(self._timeline.now - self._jobs[work.key].queued)


def test_littles_law_holds_of_what_waits() -> None:
    """The mean number of chunks that wait is their rate times their mean wait; looked at ten times a second."""
    lengths, waits_s = list[int](), list[float]()
    machine = type("Watched", (_Watched,), {"lengths": lengths, "waits_s": waits_s})
    played = play(Scene(sessions=25.0, seconds=400.0, admission=OPEN, machine=machine))
    assert mean(lengths) == pytest.approx(sum(waits_s) / played.ran_s, rel=0.1)


def test_littles_law_holds_of_sessions() -> None:
    played = play(replace(SHORT, admission=OPEN, seconds=600.0))
    ends = {asked.call for asked in played.asked}
    assert played.sessions_s / played.ran_s == pytest.approx(SHORT.sessions, rel=0.3)
    assert len(ends) <= played.admitted and not played.refused


def test_more_load_makes_more_of_them_late() -> None:
    late = [lateness(play(Scene(sessions=n, seconds=200.0, admission=OPEN))) for n in (3.0, 15.0, 30.0)]
    assert late[0] < 0.02 and late[0] < late[1] < late[2]


def test_admission_by_deadline_refuses_and_keeps_its_promise() -> None:
    scene = Scene(sessions=40.0, begin_s=120.0, seconds=240.0)
    refusing, everybody = play(scene), play(replace(scene, admission=OPEN))
    assert len(refusing.refused) > 5 and {one.reason for one in refusing.refused} <= {"burst", "utilisation"}
    assert lateness(refusing) < 0.5 * lateness(everybody)
    assert refusing.correction is not None and everybody.correction is None


@pytest.mark.parametrize("policy", ["none", "count", "token-bucket", "aimd", "gradient", "vegas", "deadline"])
def test_every_policy_of_the_server_can_be_asked_for(policy: str) -> None:
    scene = Scene(sessions=12.0, seconds=60.0, admission=AdmissionConfig(policy=policy), max_sessions=6)  # type: ignore[arg-type]
    played = play(scene)
    assert played.asked and played.most_sessions <= 6


def test_texts_in_slack_leave_voice_as_it_was_and_first_come_does_not() -> None:
    """The longest chunk that is offered, at the most; the same work is done."""
    jobs = TextJobs(0.3, (2000, 4000), (300, 500))
    scene = Scene(sessions=4.0, seconds=200.0, admission=OPEN)
    alone = play(scene)
    slack, first = (play(replace(scene, texts=jobs, pool=pool)) for pool in ("dedicated", "monolithic"))  # type: ignore[arg-type]

    def middle(played: Played) -> float:
        return median(asked.felt_s for asked in played.asked if asked.felt_s is not None)

    assert middle(slack) < middle(alone) + jobs.longest_s and lateness(slack) < lateness(alone) + 0.05
    assert lateness(first) > lateness(slack) + 0.2
    assert slack.texts.written_tokens > 0.5 * first.texts.written_tokens > 0
    assert slack.texts.asked == first.texts.asked == slack.texts.done + slack.texts.refused or slack.texts.done


def test_texts_may_come_at_given_instants() -> None:
    played = play(replace(SHORT, texts=TextJobs(0.0, (100, 100), (20, 20), at=(5.0, 6.0))))
    assert (played.texts.asked, played.texts.done) == (2, 2)
    assert (played.texts.read_tokens, played.texts.written_tokens) == (200, 40)


def test_mistakes_cost_work_that_was_done_ahead() -> None:
    def wasted_s(habits: Habits) -> float:
        records = [asked.record for asked in play(replace(SHORT, habits=habits)).asked]
        return sum(record.speculation.wasted_s for record in records if record is not None)

    assert wasted_s(Habits(marked=0.9)) > 2.0 * wasted_s(Habits(marked=0.0))


def test_a_model_that_lacks_costs_is_refused_by_name() -> None:
    gpu = load_service("gpu")
    poor = ServiceModel(name="poor", costs=tuple(cost for cost in gpu.costs if cost.kind.value != "speak"))
    with pytest.raises(ConfigError, match="the service model 'poor' has no costs of speak"):
        play(replace(SHORT, service=poor))


def test_overload_sheds_and_refuses_as_the_server_does() -> None:
    played = play(SCENES["sheds early"])
    assert played.level_changes > 0 and {one.reason for one in played.refused} == {"overload"}
