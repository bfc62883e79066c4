"""How fast a client may send, by literal times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.core.rates import BYTES_PER_MESSAGE, Hush, Over, Rates, RateSettings, What

SETTINGS = RateSettings(sound=2.0, sound_burst_s=1.0, messages_hz=10.0, messages_burst=20.0, warnings=3)


def feed(rates: Rates, packet_s: float, every_s: float, until_s: float, since_s: float = 0.0) -> list[Over]:
    """Packets of sound at a steady pace; what was refused."""
    count = round((until_s - since_s) / every_s)
    refused = (rates.on_sound(packet_s, since_s + n * every_s) for n in range(count))
    return [over for over in refused if over is not None]


@pytest.mark.parametrize("packet_s", [128 / 48_000, 0.01, 0.02, 0.1, 0.85])
@pytest.mark.parametrize("speed", [1.0, 1.99])
def test_whoever_sends_in_real_time_or_up_to_the_rate_loses_nothing(packet_s: float, speed: float) -> None:
    """However small its packets are: those of an audio worklet, of a phone line, of an SDK."""
    assert feed(Rates(SETTINGS, 0.0), packet_s, packet_s / speed, 120.0) == []


@pytest.mark.parametrize("stall_s", [1.0, 3.9])
def test_what_a_network_has_held_back_may_come_at_once(stall_s: float) -> None:
    """As soon as it moves again; any number of times."""
    rates = Rates(RateSettings(), 0.0)
    for call in range(20):
        begin = 60.0 * call
        assert feed(rates, 0.02, 0.02, begin + 30.0, begin) == []
        caught_up = [rates.on_sound(0.02, begin + 30.0 + stall_s) for _ in range(round(stall_s / 0.02))]
        assert caught_up == [None] * len(caught_up)
        assert feed(rates, 0.02, 0.02, begin + 59.0, begin + 30.0 + stall_s) == []


def test_what_is_beyond_the_burst_is_lost_and_told_once() -> None:
    """A short recording that comes at once: a second of it is taken, the rest is one warning for each second."""
    rates = Rates(SETTINGS, 0.0)
    rulings = [rates.on_sound(0.02, 0.0) for _ in range(75)]
    assert rulings[:50] == [None] * 50
    over = [ruling for ruling in rulings[50:] if ruling is not None]
    assert len(over) == 25
    assert over[0] == Over(What.SOUND, 0.02, told=True, ends=False)
    assert not any(ruling.told for ruling in over[1:])
    assert over[-1].lost == pytest.approx(0.5)


def test_a_flood_is_ended_after_so_many_bucketfuls() -> None:
    """Without a clock that moves: the fourth warning is one too many."""
    rates = Rates(SETTINGS, 0.0)
    rulings = [rates.on_sound(0.1, 0.0) for _ in range(60)]
    told = [ruling for ruling in rulings if ruling is not None and ruling.told]
    assert [over.ends for over in told[:4]] == [False, False, False, True]
    assert told[3].lost == pytest.approx(3.1, abs=0.31)


def test_a_client_that_stays_a_little_too_fast_has_some_seconds() -> None:
    """It is told once a second, and is ended when it does not heed that."""
    over = feed(Rates(SETTINGS, 0.0), 0.02, 0.02 / 2.5, 20.0)
    ends = next(index for index, one in enumerate(over) if one.ends)
    assert sum(one.told for one in over[: ends + 1]) == 4


def test_warnings_are_forgiven_one_by_one() -> None:
    """Whoever sends too much at once every eleven seconds is warned each time, and never ended."""
    rates = Rates(SETTINGS, 0.0)
    for at in range(0, 1100, 11):
        told = [over for _ in range(60) if (over := rates.on_sound(0.02, float(at))) is not None and over.told]
        assert len(told) == 1 and not told[0].ends


def test_a_message_may_be_larger_than_a_bucket() -> None:
    """A full one lets it pass, and then pays it off."""
    rates = Rates(SETTINGS, 0.0)
    assert rates.on_sound(4.0, 0.0) is None
    assert rates.on_sound(0.02, 1.4) is not None
    assert rates.on_sound(0.02, 1.6) is None


def test_messages_have_a_bucket_of_their_own_and_large_ones_count_for_several() -> None:
    """Sound leaves it alone, and the other way round."""
    rates = Rates(SETTINGS, 0.0)
    assert [rates.on_message(10, 0.0) for _ in range(20)] == [None] * 20
    assert rates.on_message(10, 0.0) == Over(What.MESSAGES, 1.0, told=True, ends=False)
    assert rates.on_sound(0.02, 0.0) is None
    assert rates.on_message(16 * BYTES_PER_MESSAGE, 0.2) is None
    assert rates.on_message(1, 1.5) is not None
    assert rates.on_message(1, 1.7) is None


def test_empty_packets_are_not_free() -> None:
    """Nobody floods with sound of no length."""
    rates = Rates(SETTINGS, 0.0)
    refused = [rates.on_sound(0.0, 0.0) for _ in range(600)]
    assert refused[:499] == [None] * 499 and refused[510] is not None


def test_a_clock_that_goes_back_gives_nothing() -> None:
    """And takes nothing."""
    rates = Rates(SETTINGS, 10.0)
    assert [rates.on_sound(0.5, 10.0) for _ in range(2)] == [None, None]
    assert rates.on_sound(0.5, 1.0) is not None
    assert rates.on_sound(0.5, 10.1) is None


@given(st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 3)), max_size=200))
def test_no_more_is_taken_than_rate_and_burst_and_one_message(steps: list[tuple[float, float]]) -> None:
    """Whatever comes when."""
    rates, now, taken = Rates(SETTINGS, 0.0), 0.0, 0.0
    for wait_s, seconds in steps:
        now += wait_s
        if rates.on_sound(seconds, now) is None:
            taken += seconds
        assert taken <= 1.0 + 2.0 * now + 3.0 + 1e-6


def test_what_happens_all_the_time_is_told_once_a_second() -> None:
    """From the first time on."""
    hush = Hush()
    assert [now for now in (0.0, 0.1, 0.99, 1.0, 1.5, 2.5) if hush.on_event(now)] == [0.0, 1.0, 2.5]
