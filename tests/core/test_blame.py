"""The split of a stage's time and the blame: whatever is injected, wherever, is named, and sums are exact."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.blame import SHARES, Chunk, background_s, blame, listened, share, shares_of, split
from voicepipe.core.budget import Ledger
from voicepipe.core.events import (
    BlameKind,
    Hearing,
    LaneTiming,
    Listened,
    Part,
    Share,
    Stage,
    Timing,
    TurnRecord,
    Verdict,
    Waits,
)


def chunk(queued: float, started: float, finished: float, waits: Waits | None = None, **more: float) -> Chunk:
    values = {"bound_s": 0.0, "batch_s": 0.0, "taken": finished} | more
    return Chunk(Timing(queued, started, finished), waits or Waits(), **values)


def ms(parts: list[Part] | tuple[Part, ...]) -> dict[str, float]:
    return {part.kind.value: round(1000 * part.seconds, 6) for part in parts}


def test_the_shares_are_the_whole_budget() -> None:
    """65, 25, 45, 40 and 25 of 200 ms."""
    assert sum(SHARES.values()) == pytest.approx(1.0)
    assert [round(200 * SHARES[stage], 6) for stage in Stage] == [65, 25, 45, 40, 25]


def test_shares_follow_what_a_machine_is_expected_to_take() -> None:
    """In proportion; a stage that is not expected on the path has none."""
    shares = shares_of({Stage.ENDPOINT: 0.12, Stage.TTS: 0.03, Stage.SEND: 0.01})
    assert [shares[stage] for stage in Stage] == pytest.approx([0.75, 0.0, 0.0, 0.1875, 0.0625])


def test_a_chunks_time_is_split_in_the_order_in_which_it_passes() -> None:
    """A gap, the lower class, the others, the unexplained, the hand-off, service within and beyond the bound, and
    the way back."""
    one = chunk(10.01, 10.1, 10.2, Waits(0.02, 0.03, 0.01), bound_s=0.07, batch_s=0.02, taken=10.205)
    assert ms(split(Stage.LLM, 10.0, 10.21, [one])) == {
        "unattributed": 10 + 30 + 5,  # before it was queued, after the waits, after it was taken up
        "blocking": 20,
        "wait": 30,
        "hand-off": 10 + 5,
        "service": 50,
        "batching": 20,
        "estimator": 30,
    }


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (0.0, 0.010, {"blocking": 10}),
        (0.015, 0.025, {"blocking": 5, "wait": 5}),
        (0.035, 0.055, {"wait": 5, "hand-off": 10, "service": 5}),
        (0.085, 0.2, {"service": 5, "estimator": 10, "unattributed": 100}),
        (0.2, 0.3, {"unattributed": 100}),
        (0.3, 0.2, {}),
    ],
)
def test_only_what_lies_on_the_path_counts(begin: float, end: float, expected: dict[str, float]) -> None:
    """A chunk may have been queued before the speech end, and may outlast the span."""
    one = chunk(0.0, 0.05, 0.1, Waits(0.02, 0.02, 0.01), bound_s=0.04)
    assert ms(split(Stage.TTS, begin, end, [one])) == expected


def test_chunks_of_a_stage_follow_each_other() -> None:
    """What waits while another one of the stage is served does not wait in vain; the way back lies between."""
    chunks = [
        chunk(0.005, 0.03, 0.04, Waits(others_s=0.025)),
        chunk(0.0, 0.0, 0.02, taken=0.022),
    ]
    assert ms(split(Stage.LLM, 0.0, 0.04, chunks)) == {"service": 30, "hand-off": 2, "wait": 8}


@pytest.mark.parametrize(
    ("stage", "kind"),
    [
        (Stage.ENDPOINT, "endpoint"),
        (Stage.ASR, "unattributed"),
        (Stage.LLM, "unattributed"),
        (Stage.TTS, "unattributed"),
        (Stage.SEND, "wait"),
    ],
)
def test_time_without_a_chunk(stage: Stage, kind: str) -> None:
    """Not knowing is what an endpoint does, and the socket is waited for; elsewhere nothing explains it."""
    assert ms(split(stage, 1.0, 1.5, [])) == {kind: 500}


def heard(queued: float, started: float, finished: float, taken: float) -> Listened:
    """A chunk that had its lane when it came."""
    return Listened(LaneTiming(queued, started, finished, queued, 0.0), 0.0, taken)


def test_the_ears_time_begins_when_the_sound_had_come() -> None:
    """A frame that came while the one before it was at work waited for that one's rest, and for its own chunk."""
    chunks = (heard(0.90, 0.90, 0.99, 0.995), heard(1.0, 1.002, 1.012, 1.015))
    assert ms(listened(0.8, 1.015, Hearing(0.96, chunks))) == {
        "service": 30 + 10,
        "hand-off": 5 + 2 + 3,
        "endpoint": 160 + 5,
    }


def test_the_endpoint_that_no_ears_have_held_up_is_patience() -> None:
    assert ms(listened(0.8, 1.0, None)) == {"endpoint": 200}


def test_sound_that_came_before_the_speech_end_holds_the_endpoint_up_from_there_only() -> None:
    assert ms(listened(1.0, 1.02, Hearing(0.95, (heard(0.95, 0.95, 1.01, 1.02),)))) == {
        "service": 10,
        "hand-off": 10,
    }


def test_what_patience_leaves_of_the_endpoints_share_is_for_its_service() -> None:
    """And not the other way round: what patience takes too long is not put down to the ears."""
    shares = {Stage.ENDPOINT: 0.1}
    patient, hearing = BlameKind.ENDPOINT, BlameKind.SERVICE
    cases = {
        (0.07, 0.02): {"unused": -10},
        (0.07, 0.05): {"service": 20},
        (0.12, 0.01): {"endpoint": 20, "service": 10},
    }
    for (patience_s, service_s), expected in cases.items():
        parts = [Part(Stage.ENDPOINT, patient, patience_s), Part(Stage.ENDPOINT, hearing, service_s)]
        found = [part for part in blame(parts, shares).parts if part.stage is Stage.ENDPOINT]
        assert ms(found) == expected


def test_a_stages_share_is_work_and_the_rest() -> None:
    """Batching and estimator error are spent at work too."""
    parts = [
        Part(Stage.LLM, BlameKind.BLOCKING, 0.02),
        Part(Stage.LLM, BlameKind.SERVICE, 0.03),
        Part(Stage.LLM, BlameKind.BATCHING, 0.01),
        Part(Stage.LLM, BlameKind.ESTIMATOR, 0.02),
        Part(Stage.LLM, BlameKind.UNATTRIBUTED, 0.01),
        Part(Stage.TTS, BlameKind.SERVICE, 9.0),
    ]
    assert share(Stage.LLM, parts) == Share(pytest.approx(0.03), pytest.approx(0.06))  # type: ignore[arg-type]
    assert share(Stage.ASR, parts) == Share()


def test_blame_falls_on_the_largest_part_beyond_the_plan() -> None:
    """Service has its share, waiting has none; what a share leaves is a negative part, and the sum is exact."""
    found = blame(
        [
            Part(Stage.ENDPOINT, BlameKind.ENDPOINT, 0.1),
            Part(Stage.LLM, BlameKind.WAIT, 0.03),
            Part(Stage.LLM, BlameKind.SERVICE, 0.05),
            Part(Stage.TTS, BlameKind.UNATTRIBUTED, 0.004),
            Part(Stage.SEND, BlameKind.CLIENT, 0.02),
        ],
        {stage: 0.2 * part for stage, part in SHARES.items()},
    )
    assert (found.stage, found.kind) == (Stage.ENDPOINT, BlameKind.ENDPOINT)
    assert found.over_s == pytest.approx(0.035)
    assert found.overrun_s == pytest.approx(0.204 - 0.2)
    assert found.unattributed_s == pytest.approx(0.004)
    assert [(p.stage.value, p.kind.value, round(1000 * p.seconds, 6)) for p in found.parts] == [
        ("endpoint", "endpoint", 35),
        ("asr", "unused", -25),
        ("llm", "wait", 30),
        ("llm", "service", 5),
        ("tts", "unused", -40),
        ("send", "unused", -5),
    ]


def test_what_nothing_explains_is_said_to_be_so() -> None:
    """The blame does not go to the next best."""
    parts = [Part(Stage.ASR, BlameKind.WAIT, 0.1), Part(Stage.TTS, BlameKind.UNATTRIBUTED, 0.3)]
    found = blame(parts, {})
    assert (found.stage, found.kind, found.over_s) == (Stage.TTS, BlameKind.UNATTRIBUTED, 0.3)
    assert found.unattributed_s == 0.3


def test_a_turn_exactly_on_its_plan_can_be_blamed() -> None:
    """A rounding error over the budget makes it late, and leaves no part beyond the plan."""
    found = blame([Part(Stage.SEND, BlameKind.CLIENT, 0.2)], {Stage.SEND: 0.2})
    assert (found.over_s, found.overrun_s) == (0.0, 0.0)
    assert found.kind is not BlameKind.UNUSED


# --- injected delays -------------------------------------------------------------------------------------

Delays = dict[tuple[Stage, BlameKind], float]
"""Seconds of each kind in each stage."""

STAGES = (Stage.ASR, Stage.LLM, Stage.TTS)
ON_CHUNKS = (
    BlameKind.BLOCKING,
    BlameKind.WAIT,
    BlameKind.HAND_OFF,
    BlameKind.SERVICE,
    BlameKind.BATCHING,
    BlameKind.ESTIMATOR,
    BlameKind.UNATTRIBUTED,
)
IN_THE_EARS = (
    BlameKind.BLOCKING,
    BlameKind.WAIT,
    BlameKind.HAND_OFF,
    BlameKind.SERVICE,
    BlameKind.ESTIMATOR,
)
SITES = [
    (Stage.ENDPOINT, BlameKind.ENDPOINT),
    *product([Stage.ENDPOINT], IN_THE_EARS),
    *product(STAGES, ON_CHUNKS),
    (Stage.SEND, BlameKind.WAIT),
    (Stage.SEND, BlameKind.CLIENT),
]
PLANNED: Delays = {
    (Stage.ENDPOINT, BlameKind.ENDPOINT): 0.065,
    (Stage.ASR, BlameKind.SERVICE): 0.025,
    (Stage.LLM, BlameKind.SERVICE): 0.045,
    (Stage.TTS, BlameKind.SERVICE): 0.04,
    (Stage.SEND, BlameKind.CLIENT): 0.025,
}
"""A turn that takes its budget of 200 ms, to the stage."""


def chain_ahead(ledger: Ledger, spent: Delays, origin: float) -> None:
    """The reply begins with the final text, and the commit comes while it is thought out."""
    now = _walk_endpoint(ledger, spent, origin)
    now = _walk(ledger, Stage.ASR, spent, now)
    ledger.on_asr_final(now)
    ledger.on_reply_begun(now)
    ledger.on_commit(now + 0.001)
    _walk_reply(ledger, spent, now)


def chain_late(ledger: Ledger, spent: Delays, origin: float) -> None:
    """The reply begins at the commit, which waited for the final text."""
    now = _walk_endpoint(ledger, spent, origin)
    now = _walk(ledger, Stage.ASR, spent, now)
    ledger.on_asr_final(now)
    ledger.on_commit(now)
    ledger.on_reply_begun(now)
    _walk_reply(ledger, spent, now)


def _walk_endpoint(ledger: Ledger, spent: Delays, origin: float) -> float:
    """The VAD's lag and the silence asked for, until the frame has come; then what its chunk is held up by."""

    def of(kind: BlameKind) -> float:
        return spent.get((Stage.ENDPOINT, kind), 0.0)

    arrived = origin + of(BlameKind.ENDPOINT)
    granted = arrived + of(BlameKind.BLOCKING) + of(BlameKind.WAIT)
    half_s, bound_s = of(BlameKind.HAND_OFF) / 2, of(BlameKind.SERVICE) + 1e-9  # 0 would say that none was declared
    finished = granted + half_s + bound_s + of(BlameKind.ESTIMATOR)
    timing = LaneTiming(arrived, granted + half_s, finished, granted, of(BlameKind.BLOCKING))
    ledger.on_hearing(Hearing(arrived, (Listened(timing, bound_s, finished + half_s),)))
    ledger.on_soft_end(origin, finished + half_s)
    return finished + half_s


def _walk(ledger: Ledger, stage: Stage, spent: Delays, now: float) -> float:
    """One chunk with these delays; the unattributed time comes before it is queued, half of the hand-off after it
    has run."""

    def of(kind: BlameKind) -> float:
        return spent.get((stage, kind), 0.0)

    queued = now + of(BlameKind.UNATTRIBUTED)
    half_s = of(BlameKind.HAND_OFF) / 2
    waits = Waits(of(BlameKind.BLOCKING), of(BlameKind.WAIT), half_s)
    started = queued + waits.lower_s + waits.others_s + half_s
    bound_s = of(BlameKind.SERVICE) + of(BlameKind.BATCHING)
    finished = started + bound_s + of(BlameKind.ESTIMATOR)
    ledger.on_service(
        stage,
        Timing(queued, started, finished),
        waits,
        bound_s=bound_s,
        batch_s=of(BlameKind.BATCHING),
        now=finished + half_s,
    )
    return finished + half_s


def _walk_reply(ledger: Ledger, spent: Delays, now: float) -> None:
    now = _walk(ledger, Stage.LLM, spent, now)
    ledger.on_clause(now)
    now = _walk(ledger, Stage.TTS, spent, now)
    ledger.on_audio(now)
    now += spent.get((Stage.SEND, BlameKind.WAIT), 0.0)
    ledger.on_sent(now)
    ledger.on_heard(now + spent[Stage.SEND, BlameKind.CLIENT] + 0.3, played_s=0.3)


Chain = Callable[[Ledger, Delays, float], None]


def judged(chain: Chain, spent: Delays, origin: float = 0.0) -> TurnRecord:
    ledger = Ledger(1, budget_s=0.2, downlink_s=0.01)
    chain(ledger, spent, origin)
    return ledger.record()


@pytest.mark.parametrize("chain", [chain_ahead, chain_late])
def test_a_turn_on_its_plan_is_met(chain: Chain) -> None:
    """So that what is injected is all that there is to blame."""
    record = judged(chain, {**PLANNED, (Stage.SEND, BlameKind.CLIENT): 0.0249})
    assert (record.verdict, record.blame) == (Verdict.MET, None)


@pytest.mark.parametrize(("stage", "kind"), SITES)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    chain=st.sampled_from([chain_ahead, chain_late]),
    origin=st.floats(0, 1e5),
    jitter=st.lists(st.floats(-0.004, 0.004), min_size=len(PLANNED), max_size=len(PLANNED)),
    noise=st.lists(st.floats(0, 0.003), min_size=len(SITES), max_size=len(SITES)),
)
def test_what_is_injected_is_blamed(
    stage: Stage, kind: BlameKind, chain: Chain, origin: float, jitter: list[float], noise: list[float]
) -> None:
    """50 ms of any kind in any stage, among 3 ms of every other one and stages 4 ms off their plan: named, with
    45 to 55 ms; the parts are the overrun, and the stages the felt gap."""
    spent = {site: PLANNED[site] + by for site, by in zip(PLANNED, jitter, strict=True)}
    spent = {site: spent.get(site, by) for site, by in zip(SITES, noise, strict=True)}
    spent[stage, kind] = (PLANNED[stage, kind] + jitter[0] if (stage, kind) in PLANNED else 0.0) + 0.05
    record = judged(chain, spent, origin)
    found = record.blame
    assert record.verdict is Verdict.MISSED and found is not None and record.felt_estimate_s is not None
    assert (found.stage, found.kind) == (stage, kind)
    assert 0.045 <= found.over_s <= 0.055
    assert found.overrun_s == pytest.approx(record.felt_estimate_s - 0.2, abs=1e-9)
    assert sum(part.seconds for part in found.parts) + found.unattributed_s == pytest.approx(found.overrun_s)
    assert sum(part.seconds for part in record.parts) == pytest.approx(record.felt_estimate_s, abs=1e-9)
    split_again = sum(s.wait_s + s.service_s for s in record.stages.values())
    assert split_again == pytest.approx(record.felt_estimate_s, abs=1e-3)


def test_background_counts_only_on_the_path_and_only_its_part() -> None:
    """Two lower classes had the device for 20 ms, background for 15 of them; half of that is before the span."""
    one = chunk(10.0, 10.05, 10.1, Waits(lower_s=0.02, background_s=0.015))
    assert background_s(10.01, 10.2, [one]) == pytest.approx(0.0075)
    assert background_s(10.0, 10.2, [one, chunk(10.1, 10.2, 10.3, Waits(lower_s=0.1))]) == pytest.approx(0.015)
    assert background_s(10.03, 10.2, [one]) == 0.0


def test_a_record_tells_how_long_background_held_the_turn_up() -> None:
    """What waited before the speech end was not felt."""
    ledger = Ledger(1, budget_s=0.2, downlink_s=0.01)
    ledger.on_soft_end(10.0, 10.03)
    ledger.on_service(Stage.ASR, Timing(9.9, 9.95, 10.0), Waits(lower_s=0.05, background_s=0.05))
    ledger.on_reply_begun(10.03)
    ledger.on_service(Stage.LLM, Timing(10.03, 10.08, 10.1), Waits(lower_s=0.05, background_s=0.05))
    ledger.on_clause(10.1)
    ledger.on_service(Stage.TTS, Timing(10.1, 10.12, 10.14), Waits(lower_s=0.01, background_s=0.01))
    ledger.on_audio(10.14)
    ledger.on_commit(10.1)
    ledger.on_sent(10.15)
    record = ledger.record(now=11.0)
    assert record.background_s == pytest.approx(0.06)
    assert (
        record.background_s <= sum(part.seconds for part in record.parts if part.kind is BlameKind.BLOCKING) + 1e-9
    )
