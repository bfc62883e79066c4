"""The intake: bytes in any portions, offsets that lie, and a clock that stays exact for an hour."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.audio import Samples, silence, to_pcm16
from voicepipe.errors import BadField, BadStart
from voicepipe.ingest import INTERNAL_HZ, AudioRing, Ingest

RATES_HZ = (8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
WRAP = 1 << 32


def ramp(n: int, start: int = 1) -> Samples:
    """Samples that can be told apart: sample k is (start + k) / 32768."""
    return ((start + np.arange(n)) / 32768).astype(np.float32)


def pcm(n: int, start: int = 1) -> bytes:
    return to_pcm16(ramp(n, start))


# --- bytes


@given(st.data())
def test_any_portions_of_mono_bytes_give_the_same_samples(data: st.DataObject) -> None:
    whole = pcm(200)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=20))
    ingest = Ingest(16_000)
    pieces = [ingest.push(whole[a:b]) for a, b in pairwise([0, *sorted(cuts), len(whole)])]
    assert np.array_equal(np.concatenate(pieces), ramp(200))


def test_messages_of_161_51_and_13_bytes_lose_nothing() -> None:
    whole = pcm(225)
    ingest = Ingest(16_000)
    out: list[Samples] = []
    position = 0
    for size in (161, 51, 13, 161, 51, 13):
        out.append(ingest.push(whole[position : position + size], position // 2))
        position += size
    assert np.array_equal(np.concatenate(out), ramp(225))
    assert ingest.stats().gaps == ingest.stats().overlaps == 0


@pytest.mark.parametrize("round_up", [False, True])
def test_half_a_stereo_frame_is_carried_whichever_frame_the_client_names(round_up: bool) -> None:
    left, right = ramp(100, 1), ramp(100, 1001)
    whole = to_pcm16(np.stack([left, right], axis=1).reshape(-1))
    ingest = Ingest(16_000, 2)
    out: list[Samples] = []
    for position in range(0, len(whole), 7):
        offset = (position + 3) // 4 if round_up else position // 4
        out.append(ingest.push(whole[position : position + 7], offset))
    assert np.allclose(np.concatenate(out), (left + right) / 2, atol=1e-7)


def test_what_cannot_be_taken_in_is_refused_at_the_start() -> None:
    for rate_hz in (7_999, 48_001, 0, -16_000):
        with pytest.raises(BadStart) as caught:
            Ingest(rate_hz)
        assert caught.value.field == "audio.rate"
    for channels in (0, 3):
        with pytest.raises(BadStart) as caught:
            Ingest(16_000, channels)
        assert caught.value.field == "audio.channels"


def test_float_input_is_sanitised_counted_and_mixed_down() -> None:
    ingest = Ingest(16_000, 2)
    out = ingest.push_float(np.array([[np.nan, 0.5], [4.0, 0.0], [np.inf, -np.inf]], np.float32))
    assert out.tolist() == [0.25, 0.5, 0.0]
    assert ingest.push_float(np.array([0.5, -9.0])).tolist() == [0.5, -1.0]
    assert ingest.stats().non_finite == 3 and ingest.stats().received_frames == 5


# --- the clock


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_the_clock_does_not_drift_in_an_hour(rate_hz: int) -> None:
    """Real resampling of an hour of silence, in messages of uneven length of about 10 s."""
    ingest = Ingest(rate_hz)
    sent = received = 0
    behind: list[float] = []
    frames = 10 * rate_hz - 7
    payload = bytes(2 * frames)
    while sent < 3600 * rate_hz:
        received += len(ingest.push(payload, sent % WRAP))
        sent += frames
        behind.append(sent * INTERNAL_HZ / rate_hz - received)
    assert max(behind) - min(behind) <= 1.0  # what the filter holds back stays the same
    assert max(behind) <= 0.0021 * INTERNAL_HZ
    received += len(ingest.flush())
    assert abs(received - round(sent * INTERNAL_HZ / rate_hz)) <= 1


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_the_clock_is_exact_with_messages_of_20_ms_as_well(rate_hz: int) -> None:
    ingest = Ingest(rate_hz)
    frames = rate_hz // 50
    received = sum(len(ingest.push(bytes(2 * frames))) for _ in range(500)) + len(ingest.flush())
    assert abs(received - round(500 * frames * INTERNAL_HZ / rate_hz)) <= 1


# --- offsets


def test_a_gap_is_filled_with_silence() -> None:
    ingest = Ingest(16_000)
    ingest.push(pcm(100), 0)
    out = ingest.push(pcm(50, 1001), 130)
    assert np.array_equal(out, np.concatenate([silence(30), ramp(50, 1001)]))
    stats = ingest.stats()
    assert (stats.gaps, stats.filled_frames, stats.received_frames) == (1, 30, 150)


def test_a_gap_at_another_rate_keeps_the_two_clocks_together() -> None:
    ingest = Ingest(48_000)
    received = len(ingest.push(pcm(4_800), 0)) + len(ingest.push(pcm(4_800), 9_600))
    assert received + len(ingest.flush()) == 14_400 // 3


def test_an_overlap_is_dropped() -> None:
    ingest = Ingest(16_000)
    ingest.push(pcm(100), 0)
    out = ingest.push(pcm(50, 81), 80)
    assert np.array_equal(out, ramp(30, 101))
    assert (ingest.stats().overlaps, ingest.stats().dropped_frames) == (1, 20)


def test_a_resent_stretch_is_dropped_message_by_message_even_with_odd_bytes() -> None:
    """The client goes back by 60 samples and sends them again in odd portions, then goes on."""
    whole = pcm(200)
    ingest = Ingest(16_000)
    out = [ingest.push(whole[:200], 0)]
    out += [ingest.push(whole[begin : begin + 33], begin // 2) for begin in range(80, 400, 33)]
    assert np.array_equal(np.concatenate(out), ramp(200))
    assert ingest.stats().dropped_frames == 60


def test_a_lost_message_takes_the_carried_byte_with_it() -> None:
    whole = pcm(300)
    ingest = Ingest(16_000)
    ingest.push(whole[:101], 0)  # 50 samples and a half
    out = ingest.push(whole[200:400], 100)
    assert np.array_equal(out, np.concatenate([silence(50), ramp(100, 101)]))


@pytest.mark.parametrize("jump", [1_601, -1_601, 1 << 31, (1 << 31) - 1])
def test_a_jump_is_one_bad_field_and_the_clock_follows(jump: int) -> None:
    ingest = Ingest(16_000, max_jump_s=0.1)
    ingest.push(pcm(2_000), 0)
    offset = (2_000 + jump) % WRAP
    with pytest.raises(BadField) as caught:
        ingest.push(pcm(10), offset)
    assert caught.value.field == "offset_samples" and not caught.value.fatal
    assert np.array_equal(ingest.push(pcm(10, 11), (offset + 10) % WRAP), ramp(10, 11))
    assert ingest.stats().jumps == 1 and ingest.stats().filled_frames == 0


@pytest.mark.parametrize("jump", [1_600, -1_600])
def test_the_bound_itself_is_bridged(jump: int) -> None:
    ingest = Ingest(16_000, max_jump_s=0.1)
    ingest.push(pcm(2_000), 0)
    out = ingest.push(pcm(1_700), 2_000 + jump)
    assert len(out) == 1_700 + jump


def test_the_client_clock_wraps() -> None:
    ingest = Ingest(16_000)
    ingest.push(pcm(100), WRAP - 150)
    assert len(ingest.push(pcm(100), WRAP - 50)) == 100
    assert len(ingest.push(pcm(100), 60)) == 110
    stats = ingest.stats()
    assert (stats.gaps, stats.overlaps, stats.jumps) == (1, 0, 0)


def test_the_first_message_sets_the_clock() -> None:
    assert len(Ingest(16_000).push(pcm(10), 3_000_000_000)) == 10


def test_silence_put_in_for_a_quiet_client_is_not_filled_twice() -> None:
    ingest = Ingest(16_000)
    ingest.push(pcm(100), 0)
    assert len(ingest.stall(300)) == 300
    assert len(ingest.push(pcm(10), 500)) == 110  # 400 were lost, 300 of them are there
    assert len(ingest.stall(300)) == 300
    assert len(ingest.push(pcm(10), 610)) == 10  # 100 were lost
    assert len(ingest.stall(300)) == 300
    assert len(ingest.push(pcm(10), 620)) == 10  # late, not lost
    assert len(ingest.push(pcm(10), 650)) == 30  # and a stall counts once


# --- the ring


@given(st.lists(st.integers(0, 70), max_size=30))
def test_the_ring_holds_the_newest_samples_under_their_own_numbers(sizes: list[int]) -> None:
    ring = AudioRing(seconds=32 / INTERNAL_HZ)
    history = silence(0)
    for size in sizes:
        piece = ramp(size, len(history) + 1)
        history = np.concatenate([history, piece])
        ring.append(piece)
        assert (ring.oldest, ring.newest) == (max(0, len(history) - 32), len(history))
        for start in range(ring.oldest, ring.newest + 1):
            assert np.array_equal(ring.read(start, ring.newest), history[start:])
        assert np.array_equal(ring.read(ring.oldest, ring.oldest), silence(0))


def test_what_is_read_is_a_copy() -> None:
    ring = AudioRing(seconds=1)
    ring.append(ramp(10))
    ring.read(0, 10)[:] = 0
    assert np.array_equal(ring.read(0, 10), ramp(10))


@pytest.mark.parametrize(("start", "end"), [(7, 20), (8, 41), (20, 19), (-1, 20)])
def test_reading_what_is_not_there_is_a_bug(start: int, end: int) -> None:
    ring = AudioRing(seconds=32 / INTERNAL_HZ)
    ring.append(ramp(40))
    assert len(ring.read(8, 40)) == 32
    with pytest.raises(AssertionError, match="not within"):
        ring.read(start, end)


def test_a_ring_holds_something() -> None:
    with pytest.raises(ValueError, match="holds nothing"):
        AudioRing(seconds=0)


def test_a_ring_that_is_closed_holds_nothing() -> None:
    """And keeps count: what is read of it by mistake is a bug that shows."""
    ring = AudioRing(1.0)
    ring.append(silence(100))
    ring.close()
    assert (ring.oldest, ring.newest) == (99, 100)
    with pytest.raises(AssertionError):
        ring.read(0, 100)
