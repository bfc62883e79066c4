"""A scene: callers, a server and its device, in virtual time. The same scene gives the same bytes.

    played = play(Scene(seed=1, sessions=20.0, seconds=600.0))

What is decided, is decided by the classes that serve: turns, scheduler, forecaster, admission, overload, texts in
slack. What is not simulated stands in docs/design.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from voicepipe.config import (
    AdmissionConfig,
    Config,
    Enforcement,
    LimitsConfig,
    LlmPool,
    OperatingPoint,
    OverloadConfig,
    Rung,
)
from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.admission import Refuse, SessionRequest, Wait
from voicepipe.core.background import NO_LIMIT_S, TextSettings
from voicepipe.core.blame import shares_of
from voicepipe.core.demand import Demand, shared_kinds
from voicepipe.core.endpoint import RATE_HZ
from voicepipe.core.events import Stage as TurnStage
from voicepipe.core.events import Timing, TurnRecord, Work, WorkKind
from voicepipe.core.forecast import Forecaster
from voicepipe.core.outcomes import observe
from voicepipe.core.overload import Level, Overload, Signals
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.policies import DeadlinePolicy
from voicepipe.core.reply import ReplySettings, is_hurried
from voicepipe.core.scheduler import Pool
from voicepipe.core.turn_state import DOWNLINK_S, OWN_MODEL, Attempts, TurnSettings
from voicepipe.entrance import make_admission, make_policy, overload_settings
from voicepipe.sim.caller import Call, Habits, draw_calls
from voicepipe.sim.draws import Draws
from voicepipe.sim.ears import Ears
from voicepipe.sim.house import House
from voicepipe.sim.machine import MakeMachine, SchedulerMachine, Site
from voicepipe.sim.played import Asked, Played, Refused, Texts, became, refused
from voicepipe.sim.recogniser import Recogniser, WordByWord
from voicepipe.sim.replies import ReplyTo, reply_to
from voicepipe.sim.service import MODEL, TEXTS, ServiceModel, Times, load_service
from voicepipe.sim.talk import Talk
from voicepipe.sim.texts import Tally, TextJob
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.warm import WarmUp, warm_up

__all__ = ["Asked", "Played", "Refused", "Scene", "TextJobs", "Texts", "play"]

END_S = 4.0
"""After the last instant that is counted: time for its turn to end."""
LOOK_S = 0.1
"""How often it is looked at how hard the server is pressed."""
SOUND_S = 0.3
"""An acknowledgement."""


@dataclass(frozen=True, slots=True)
class TextJobs:
    """Texts that nobody waits to hear, asked for as a Poisson process."""

    per_s: float
    prompt_tokens: tuple[int, int] = (4000, 4000)
    """Drawn from evenly, both ends included; like `output_tokens`."""
    output_tokens: tuple[int, int] = (800, 800)
    slots: int = 4
    """Of the model, for texts."""
    max_waiting: int = 16
    longest_s: float = TEXTS.longest_s
    """The largest chunk that is offered for slack."""
    at: tuple[float, ...] = ()
    """Asked for at these instants, instead of at random."""


@dataclass(frozen=True, slots=True)
class Scene:
    seed: int = 1
    begin_s: float = 0.0
    """Until then the server fills; questions that end later are counted."""
    seconds: float = 600.0
    """Questions that end in [begin_s, begin_s + seconds) are counted."""
    sessions: float = 10.0
    """So many calls would be under way at a time if all were let in."""
    habits: Habits = Habits()  # noqa: RUF009 - a value
    calls: tuple[Call, ...] | None = None
    """Instead of drawn ones."""
    only: frozenset[int] | None = None
    """Calls that come, by number; None: all of them."""
    answered: frozenset[int] = frozenset()
    """Calls, by number, of which no turn is refused, whatever `enforcement` says."""
    service: ServiceModel = field(default_factory=lambda: load_service("gpu"))
    machine: MakeMachine = SchedulerMachine
    pool: LlmPool = "dedicated"
    budget_s: float = 0.2
    operating_point: OperatingPoint = "fast"
    enforcement: Enforcement = "degrade"
    ladder: tuple[Rung, ...] = ("short-clause",)
    admission: AdmissionConfig = AdmissionConfig()  # noqa: RUF009 - a value
    """Policy by name, and its settings."""
    max_sessions: int = 1000
    overload: OverloadConfig = OverloadConfig()  # noqa: RUF009 - a value
    speculates: bool = True
    """Replies are begun before the commit."""
    texts: TextJobs | None = None
    second_pass: bool = False
    """A larger recogniser hears committed turns again, in slack."""
    ears: Ears = Ears()  # noqa: RUF009 - a value
    recogniser: Recogniser = field(default_factory=WordByWord)
    reply_to: ReplyTo = reply_to
    frame_s: float = 0.4
    """Of audio, that is sent at a time: a server's 0.02 s are twenty times as many events, and change nothing but
    when the last of a reply is sent."""
    watches: bool = False
    """`Played.demand` has what sessions asked of the device."""
    keeps_chunks: bool = False
    """`Played.chunks` has what every chunk took."""


def play(scene: Scene) -> Played:
    """Raises ConfigError where the service model lacks what the scene needs."""
    return _Stage(scene).play()


def calls_of(scene: Scene) -> tuple[Call, ...]:
    """Those that come if nobody is left out, by number."""
    if scene.calls is not None:
        return scene.calls
    chance, until = Random(f"{scene.seed} calls"), scene.begin_s + scene.seconds
    return draw_calls(scene.sessions, until, scene.habits, scene.service.noticed_s, chance)


class _Stage:
    """A server, its callers, and what is noted of them."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._timeline = Timeline()
        self._end = scene.begin_s + scene.seconds
        service, config = scene.service, _config_of(scene)
        placement = service.lane_of()
        self._times, self._draws = Times(service), Draws(f"{scene.seed} chunks")
        warm = warm_up(service, scene.texts.slots if scene.texts else 0, Random(f"{scene.seed} warm-up"))
        self._forecaster = Forecaster(placement)
        self._forecaster.seed(warm.chunks, warm.ways)
        self._demand = Demand(shared_kinds(placement, service.lanes), warm.expected)
        self._policy = make_policy(config, self._demand)
        self._admission = make_admission(config, self._policy)
        self._overload = Overload(overload_settings(config.overload))
        self._tally = Tally()
        self._machine = scene.machine(self._site(placement))
        self._house = House(
            timeline=self._timeline,
            machine=self._machine,
            forecaster=self._forecaster,
            times=self._times,
            draws=self._draws,
            settings=_turn_settings(scene, warm),
            ears=scene.ears,
            recogniser=scene.recogniser,
            reply_to=scene.reply_to,
            level=lambda: self._overload.level,
            on_record=self._on_record,
            claims=(scene.texts is not None or scene.second_pass) and self._machine.heeds_starts,
        )
        self._talks: dict[int, tuple[int, Talk]] = {}
        """Sessions that are under way: number of the call and session, by lease."""
        self._asked: list[Asked] = []
        self._refused: list[Refused] = []
        self._let_in: set[int] = set()
        self._chunks: list[tuple[Work, Timing, str]] = []
        self._admitted = self._most = self._turns = self._events = 0
        self._sessions_s = 0.0

    def play(self) -> Played:
        scene, timeline = self._scene, self._timeline
        end = self._end + END_S
        for number, call in enumerate(calls_of(scene)):
            if call.at >= end or (scene.only is not None and number not in scene.only):
                continue
            timeline.at(call.at, lambda number=number, call=call: self._arrive(number, call))  # type: ignore[misc]
        if scene.texts is not None:
            self._ask_for_texts(scene.texts)
        timeline.after(LOOK_S, self._look)
        timeline.run(end)
        for lease in list(self._talks):
            self._hang_up(lease)
        self._machine.close()
        timeline.run()
        return self._played(end)

    # the door

    def _arrive(self, number: int, call: Call) -> None:
        now = self._timeline.now
        counts = self._scene.begin_s <= now < self._end
        decision = self._admission.on_connect(SessionRequest(), now)
        if isinstance(decision, Refuse):
            self._asked += refused(number, call, decision.reason)
            if counts:
                reason, retry_ms = decision.reason, decision.retry_after_ms
                self._refused.append(Refused(number, now, reason, retry_ms, len(self._talks)))
            return
        assert not isinstance(decision, Wait), "there is no waiting room"
        self._let_in.add(number)
        lease, ident = decision.lease_id, f"s{number}"
        self._admitted += counts
        self._demand.on_joined(ident)
        self._house.leases["session"] += 1
        talk = Talk(self._house_of(number), ident, call)
        self._talks[lease] = (number, talk)
        self._most = max(self._most, len(self._talks))
        talk.open()
        self._timeline.at(call.end, lambda: self._hang_up(lease))

    def _house_of(self, number: int) -> House:
        if number not in self._scene.answered:
            return self._house
        return replace(self._house, settings=replace(self._house.settings, enforce=False))

    def _hang_up(self, lease: int) -> None:
        if lease not in self._talks:
            return  # the run is over
        now = self._timeline.now
        number, talk = self._talks.pop(lease)
        talk.close()
        self._sessions_s += now - talk.call.at
        self._turns += len(talk.records)
        self._asked += became(number, talk.call, talk.records, talk.clauses)
        self._demand.on_left(talk.ident)
        self._admission.on_end(lease, now)
        self._house.leases["session"] -= 1

    def _on_record(self, session: str, record: TurnRecord) -> None:
        self._demand.on_turn(session, record)
        self._admission.on_turn(observe(record), self._timeline.now)

    # the machine

    def _site(self, placement: dict[WorkKind, str]) -> Site:
        scene, learn = self._scene, self._forecaster.on_chunk

        def on_slots(more: int) -> None:
            self._house.leases["text"] += more

        return Site(
            timeline=self._timeline,
            times=self._times,
            draws=self._draws,
            placement=placement,
            lanes=scene.service.lanes,
            pool=Pool(scene.pool),
            forecaster=self._forecaster,
            observe=self._observe(),
            learn=lambda work, service_s, whole: learn(work, service_s, whole=whole),
            texts=_text_settings(scene),
            tally=self._tally,
            on_slots=on_slots,
        )

    def _observe(self) -> Callable[[Work, Timing, str], None]:
        """What nobody asks for is not kept: only one policy looks at what sessions need."""
        keeps = self._scene.keeps_chunks
        watches = self._scene.watches or isinstance(self._policy, DeadlinePolicy)

        def observe_chunk(work: Work, timing: Timing, lane: str) -> None:
            if watches:
                self._demand.on_chunk(work, timing)
            if keeps:
                self._chunks.append((work, timing, lane))

        return observe_chunk

    def _look(self) -> None:
        """There is no event loop here that could lag, and no sound that waits to be listened to."""
        before, now = self._overload.level, self._timeline.now
        level = self._overload.on_signals(Signals(backlog_s=self._machine.snapshot().backlog_s), now)
        if level is not None and (level is Level.REFUSE) is not (before is Level.REFUSE):
            self._admission.on_shed(level is Level.REFUSE, now)
        if now < self._end + END_S:
            self._timeline.after(LOOK_S, self._look)

    def _ask_for_texts(self, jobs: TextJobs) -> None:
        chance, at = Random(f"{self._scene.seed} texts"), 0.0
        instants = list(jobs.at)
        while not jobs.at and jobs.per_s > 0.0 and (at := at + chance.expovariate(jobs.per_s)) < self._end:
            instants.append(at)
        for when in instants:
            job = TextJob(chance.randint(*jobs.prompt_tokens), chance.randint(*jobs.output_tokens))
            self._timeline.at(when, lambda job=job: self._ask_for_text(job))  # type: ignore[misc]

    def _ask_for_text(self, job: TextJob) -> None:
        self._tally.asked += 1
        pressed = self._overload.level >= Level.SHED_BACKGROUND
        self._tally.refused += pressed or not self._machine.write(job)

    # what it comes to

    def _played(self, end: float) -> Played:
        scene, tally, snapshot = self._scene, self._tally, self._machine.snapshot()
        counted = [asked for asked in self._asked if scene.begin_s <= asked.said.end < self._end]
        policy = self._policy
        return Played(
            seconds=scene.seconds,
            asked=tuple(sorted(counted, key=lambda asked: (asked.call, asked.number))),
            refused=tuple(self._refused),
            admitted=self._admitted,
            let_in=frozenset(self._let_in),
            most_sessions=self._most,
            sessions_s=self._sessions_s,
            turns=self._turns,
            texts=Texts(tally.asked, tally.refused, tally.done, tally.read_tokens, tally.written_tokens),
            busy_s=snapshot.busy_s,
            ran_s=end,
            leases=dict(self._house.leases),
            correction=policy.calibration.factor if isinstance(policy, DeadlinePolicy) else None,
            demand=self._demand.snapshot() if scene.watches else None,
            level_changes=self._overload.snapshot().changes,
            events=self._timeline.happened,
            chunks=tuple(self._chunks),
        )


def _config_of(scene: Scene) -> Config:
    """As the server would be configured."""
    return Config(
        operating_point=scene.operating_point,
        enforcement=scene.enforcement,
        budget_ms=1000 * scene.budget_s,
        ladder=scene.ladder,
        limits=LimitsConfig(max_sessions=scene.max_sessions),
        admission=scene.admission,
        overload=scene.overload,
    )


def _turn_settings(scene: Scene, warm: WarmUp) -> TurnSettings:
    """As the server makes them of its configuration (`voicepipe.turn_setup`)."""
    manner, ears = scene.service.manner, scene.ears
    ladder = () if scene.enforcement == "observe" else scene.ladder
    may_cut = "short-clause" in ladder
    noticed_s = sum(scene.service.noticed_s) / len(scene.service.noticed_s)
    expected_s = {
        TurnStage.ENDPOINT: noticed_s + ears.frame_samples / RATE_HZ,
        TurnStage.ASR: warm.final_s,
        TurnStage.LLM: warm.clause_s,
        TurnStage.TTS: warm.audio_s,
        TurnStage.SEND: DOWNLINK_S,
    }
    samples = round(SOUND_S * manner.rate_hz)
    sounds = tuple(bytes([level, 0]) * samples for level in (1, 2, 3)) if "acknowledge" in ladder else ()
    return TurnSettings(
        reply=ReplySettings(
            PlayoutSettings(manner.rate_hz, frame_s=scene.frame_s),
            max_tokens=_config_of(scene).max_reply_tokens,
            may_cut=may_cut,
            hurried=may_cut and is_hurried(warm.total_s, scene.budget_s),
        ),
        patience=OPERATING_POINTS[scene.operating_point],
        instructions="instructions",
        budget_s=scene.budget_s,
        shares=shares_of(expected_s),
        enforce=scene.enforcement == "enforce",
        acknowledge=AcknowledgeSettings(sounds=sounds),
        second_pass=scene.second_pass,
        may_skip_pass="no-second-pass" in ladder,
        may_shrink="small-model" in ladder and manner.small_share > 0.0,
        warm=manner.keeps_prefix,
        attempts=OWN_MODEL if scene.speculates else Attempts(0, 0.0),
    )


def _text_settings(scene: Scene) -> TextSettings:
    """Where background does not wait for slack, its chunks are as large as the engine takes them."""
    jobs, manner = scene.texts or TextJobs(0.0), scene.service.manner
    longest_s = jobs.longest_s if Pool(scene.pool) is Pool.DEDICATED else NO_LIMIT_S
    reading, writing = manner.text_reading, manner.text_writing
    return TextSettings(
        MODEL,
        jobs.slots,
        jobs.max_waiting,
        reading,
        writing,
        start_reading=reading[len(reading) // 2],
        start_writing=writing[min(1, len(writing) - 1)],
        longest_s=longest_s,
    )
