"""Where the sound falls away."""

from __future__ import annotations

from collections.abc import Sequence

from voicepipe.core.events import Lull, Swell
from voicepipe.core.lull import LullTracker

BLOCK = 160
SPEECH, HUSH, SILENCE = -20.0, -55.0, -90.0


def heard(levels: Sequence[float], tracker: LullTracker | None = None) -> list[Lull | Swell]:
    tracker = tracker or LullTracker()
    return [event for i, level in enumerate(levels) for event in tracker.on_level(level, i * BLOCK)]


def test_sound_begins_and_ends() -> None:
    """Sound at its first block, its end after 20 ms of quiet, dated back to where that began."""
    events = heard([SILENCE] * 10 + [SPEECH] * 20 + [SILENCE] * 10)
    assert events == [Swell(10 * BLOCK), Lull(30 * BLOCK, 32 * BLOCK)]


def test_a_single_quiet_block_is_no_lull() -> None:
    """The closure before a "t" is longer, the gap between two glottal pulses is not."""
    assert heard([SILENCE] * 5 + [SPEECH] * 10 + [SILENCE] + [SPEECH] * 10)[1:] == []


def test_quiet_is_relative_to_the_voice() -> None:
    """30 dB below its peak: the same level is quiet behind a loud voice, and a word of a soft one."""
    assert heard([SILENCE] * 5 + [SPEECH] * 10 + [HUSH] * 5)[1:] == [Lull(15 * BLOCK, 17 * BLOCK)]
    assert heard([SILENCE] * 5 + [-40.0] * 10 + [HUSH] * 5)[1:] == []


def test_noise_behind_the_voice_is_quiet() -> None:
    """Where the background is less than 30 dB below the voice, what comes near to it is taken for it."""
    noise = [-41.0, -40.0, -39.0, -40.0]
    events = heard(noise * 100 + [SPEECH] * 20 + noise * 5)
    assert events[-2:] == [Swell(400 * BLOCK), Lull(420 * BLOCK, 422 * BLOCK)]


def test_the_peak_is_forgotten() -> None:
    """At 5 dB a second: somebody who moves away from the microphone is heard again."""
    near, far = [SILENCE] * 5 + [SPEECH] * 10, [-55.0, SILENCE]
    assert [type(event) for event in heard(near + far * 40)] == [Swell, Lull]
    assert [type(event) for event in heard(near + far * 60)][:3] == [Swell, Lull, Swell]


def test_a_loud_voice_fades() -> None:
    """30 dB below its peak it is still heard, down to -50 dBFS; a soft voice or noise behind it leaves nothing."""
    for levels, quiet, faded in (
        ([-5.0] * 10 + [-38.0, -44.0, -60.0, -60.0], 10, 12),
        ([-5.0] * 10 + [-38.0] * 4, 10, None),
        ([-5.0] * 10 + [-60.0, -44.0, -60.0, -60.0], 10, 12),
        ([-30.0] * 10 + [-70.0] * 4, 10, 10),
        ([-45.0] * 200 + [-10.0] * 10 + [-44.0] * 4, 210, 210),
    ):
        tracker = LullTracker()
        heard(levels, tracker)
        snapshot = tracker.snapshot()
        assert snapshot.quiet_from == quiet * BLOCK
        assert snapshot.faded_from == (None if faded is None else faded * BLOCK)


def test_the_snapshot_tells_since_when() -> None:
    tracker = LullTracker()
    heard([SILENCE] * 5 + [SPEECH] * 5, tracker)
    assert tracker.snapshot().quiet_from is None
    for i in range(3):
        tracker.on_level(SILENCE, (10 + i) * BLOCK)
    assert tracker.snapshot().quiet_from == 10 * BLOCK
