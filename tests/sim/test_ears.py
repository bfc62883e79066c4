"""What is told of an utterance is what the server's own ears would tell of its sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from math import ceil

import pytest

from voicepipe.core.endpoint import RATE_HZ, Endpointer
from voicepipe.core.events import EndpointEvent, Onset, Quiet, Resumed, Silence, SoftEnd, Swell, Voiced
from voicepipe.core.lull import LullTracker
from voicepipe.sim.caller import Gap, Utterance
from voicepipe.sim.ears import Ears, Listener
from voicepipe.sim.replies import REPLIES

FRAME, PACKET, BLOCK = 512, 320, 160
UPLINK_S, LISTEN_S = 0.001, 0.0006
EVERY_FRAME = Ears(uplink_s=UPLINK_S, voiced_every_s=FRAME / RATE_HZ)
ORIGIN = 100.0


def utterance(begin: float, end: float, noticed_s: float, gaps: Sequence[Gap] = ()) -> Utterance:
    said = ("What", "now")
    return Utterance(
        ORIGIN + begin,
        ORIGIN + end,
        said,
        (ORIGIN + end - 0.3, ORIGIN + end),
        "?",
        (False, False),
        (False, False),
        False,
        tuple(Gap(ORIGIN + gap.begin, ORIGIN + gap.end, gap.noticed_s) for gap in gaps),
        noticed_s,
        REPLIES[0],
    )


def stretches(several: Sequence[Utterance]) -> Iterator[tuple[float, float, float]]:
    """(begin, end, how late the detector notices that; 0 where it does not)"""
    for said in several:
        begin = said.begin
        for gap in (*said.gaps, Gap(said.end, said.end, said.noticed_s)):
            yield begin - ORIGIN, gap.begin - ORIGIN, gap.noticed_s
            begin = gap.end


def by_the_server(said: Sequence[Utterance], until: float) -> list[tuple[float, EndpointEvent]]:
    """Packet by packet: levels by block, a detector by frame, as `voicepipe.ears` has it. The detector is one that
    holds speech for as long as the utterance says."""
    loud = [(round(b * RATE_HZ), ceil(round(e * RATE_HZ) / BLOCK) * BLOCK) for b, e, _ in stretches(said)]
    voiced: list[tuple[int, int]] = []
    since: int | None = None
    for (begin, quiet_from), (*_, noticed_s) in zip(loud, stretches(said), strict=True):
        since = ceil(begin / FRAME) * FRAME if since is None else since
        if noticed_s:
            voiced.append((since, ceil((quiet_from + round(noticed_s * RATE_HZ)) / FRAME) * FRAME))
            since = None
    endpointer, lulls, told = Endpointer(), LullTracker(), list[tuple[float, EndpointEvent]]()
    block = frame = 0
    for packet in range(PACKET, round(until * RATE_HZ), PACKET):
        arrived = ORIGIN + packet / RATE_HZ + UPLINK_S
        while block + BLOCK <= packet:
            level_db = -20.0 if any(b < block + BLOCK and block < e for b, e in loud) else -90.0
            told += [(arrived, event) for event in lulls.on_level(level_db, block)]
            block += BLOCK
        quiet_from = lulls.snapshot().quiet_from
        if quiet_from is not None and endpointer.snapshot().listening:
            told.append((arrived, Quiet(block - quiet_from)))
        while frame + FRAME <= packet:
            probability = float(any(b <= frame < e for b, e in voiced))
            told += [(arrived + LISTEN_S, event) for event in endpointer.on_frame(probability, frame, FRAME)]
            frame += FRAME
    return sorted(told, key=lambda one: one[0])


def by_us(several: Sequence[Utterance], until: float) -> list[tuple[float, EndpointEvent]]:
    """What follows an utterance is told until the next one begins: not of its first frames."""
    listener, told = Listener(EVERY_FRAME, ORIGIN), list[tuple[float, EndpointEvent]]()
    for said, following in zip(several, (*several[1:], None), strict=True):
        end = ORIGIN + until if following is None else following.begin
        chain = (*listener.told(said, LISTEN_S), *listener.silence())
        told += [(round(one.at, 9), one.event) for one in chain if one.at < end and not one.early]
    return told


def quiet_apart(told: Sequence[tuple[float, EndpointEvent]]) -> tuple[list[object], dict[float, int]]:
    """(all else, quiet by the instant of its telling)"""
    quiet = {at: event.samples for at, event in told if isinstance(event, Quiet)}
    return [one for one in told if not isinstance(one[1], Quiet)], quiet


@pytest.mark.parametrize(
    ("said", "until"),
    [
        ([utterance(0.5, 2.013, 0.045)], 2.9),
        ([utterance(0.511, 1.7, 0.001, [Gap(1.0, 1.45, 0.06)])], 2.5),
        ([utterance(0.3, 3.333, 0.06, [Gap(0.9, 1.2, 0.03), Gap(2.2, 2.9, 0.017)])], 4.5),
        ([utterance(0.5, 2.0, 0.045, [Gap(1.2, 1.25)])], 2.6),
        ([utterance(0.5, 1.0, 0.05), utterance(2.0, 3.1, 0.02), utterance(9.0, 10.0, 0.05)], 10.5),
    ],
)
def test_events_and_their_instants_are_those_of_the_servers_ears(said: list[Utterance], until: float) -> None:
    """All of them but quiet, of which those are told that can decide something: none is told that the server does
    not tell, and behind each soft end none is missing up to 0.2 s."""
    begins = [one.begin for one in said[1:]]
    (ours, quiet), (server, their_quiet) = (
        quiet_apart(by_us(said, until - 0.1)),
        quiet_apart(by_the_server(said, until)),
    )
    assert ours == [
        (round(at, 9), event)
        for at, event in server
        if at < ORIGIN + until - 0.1
        and not (isinstance(event, Silence) and any(0.0 <= at - begin < 0.04 for begin in begins))
    ]  # type: ignore[misc]
    theirs = {round(at, 9): samples for at, samples in their_quiet.items()}
    assert quiet.items() <= theirs.items()
    soft_ends = [at for at, event in ours if isinstance(event, SoftEnd)]  # type: ignore[misc]
    for soft_end in soft_ends:
        close = {at for at in theirs if soft_end - 0.02 < at < soft_end + 0.15 and theirs[at] < 0.2 * RATE_HZ}
        assert close and close <= quiet.keys()


def test_a_lull_that_the_detector_misses_ends_nothing() -> None:
    """The sound falls away, and comes back; speech goes on all the while."""
    told = by_us([utterance(0.5, 2.0, 0.045, [Gap(1.2, 1.25)])], 2.3)
    kinds = [type(event).__name__ for _, event in told if not isinstance(event, Voiced | Silence | Quiet)]
    assert kinds == ["Swell", "Onset", "Lull", "Swell", "Lull", "SoftEnd"]


def test_the_end_of_speech_is_put_where_the_sound_fell_away() -> None:
    said = utterance(0.5, 2.0, 0.06)
    (end,) = (one for one in Listener(Ears(), ORIGIN).told(said, LISTEN_S) if isinstance(one.event, SoftEnd))
    assert end.spoken_at == pytest.approx(ORIGIN + 2.0 + Ears().uplink_s)
    assert 0.09 < end.at - end.spoken_at < 0.15


def test_who_speaks_again_within_four_seconds_goes_on() -> None:
    """Later than that it is an onset, which reaches back."""
    listener = Listener(Ears(), ORIGIN)
    listener.told(utterance(0.5, 1.0, 0.05), LISTEN_S)
    told = listener.told(utterance(2.0, 3.0, 0.05), LISTEN_S)
    assert [type(one.event) for one in told[:2]] == [Swell, Resumed]
    onset = listener.told(utterance(8.0, 9.0, 0.05), LISTEN_S)[1].event
    assert onset == Onset(ceil(8.0 * RATE_HZ / FRAME) * FRAME - round(0.4 * RATE_HZ))


def test_silence_is_told_until_it_is_forgotten() -> None:
    listener = Listener(Ears(), ORIGIN)
    told = listener.told(utterance(0.5, 1.0, 0.05), LISTEN_S)
    silences = [one.event.samples for one in (*told, *listener.silence()) if isinstance(one.event, Silence)]
    assert silences == list(range(FRAME, 4 * RATE_HZ + FRAME + 1, FRAME))


def test_early_speech_means_something_over_a_reply_only() -> None:
    told = Listener(Ears(), ORIGIN).told(utterance(0.5, 3.0, 0.05, [Gap(1.5, 2.0, 0.05)]), LISTEN_S)
    early = [one.event.speech_samples for one in told if one.early and isinstance(one.event, Voiced)]
    assert early == [3 * FRAME, 4 * FRAME, 6 * FRAME, 8 * FRAME] * 2
    begins = [index for index, one in enumerate(told) if isinstance(one.event, Onset | Resumed)]
    assert all(not told[index].early for index in begins)


def test_sound_has_arrived_up_to_the_newest_packet() -> None:
    listener = Listener(Ears(uplink_s=0.001), ORIGIN)
    assert [listener.newest(ORIGIN + at) for at in (0.0, 0.0205, 0.0211, 0.5)] == [0, 0, PACKET, 24 * PACKET]
    assert listener.time_of(RATE_HZ) == ORIGIN + 1.0


def test_a_hearing_has_the_detectors_chunk_in_it() -> None:
    listener = Listener(Ears(), ORIGIN)
    told = next(one for one in listener.told(utterance(0.5, 1.0, 0.05), LISTEN_S) if isinstance(one.event, SoftEnd))
    hearing = listener.hearing(told, 0.0001, 0.0002)
    (chunk,) = hearing.chunks
    assert hearing.taken == told.at and hearing.since == pytest.approx(told.at - LISTEN_S)
    assert chunk.timing.service_s == pytest.approx(LISTEN_S - 0.0003)


def test_it_is_told_in_order() -> None:
    told = Listener(Ears(), ORIGIN).told(utterance(0.5, 4.0, 0.05, [Gap(1.5, 2.0, 0.05)]), LISTEN_S)
    times = [one.at for one in told]
    assert times == sorted(times) and len(list(takewhile(lambda at: at < ORIGIN + 0.5, times))) == 0
