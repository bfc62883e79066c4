"""Recordings as a microphone: frames, labels, and a schedule that does not drift."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from voicepipe.audio import Samples, write_wav
from voicepipe.errors import AudioFileError
from voicepipe_client.source import ClipSource, Feed, OutFrame, load_clip, make_clip

RATE = 16_000
FRAME = 320


def speech(*parts: tuple[int, float]) -> Samples:
    """(samples, level) in a row, each a square wave."""
    sign = [np.where(np.arange(n) % 2, level, -level) for n, level in parts]
    return np.concatenate(sign).astype(np.float32)


CLIP = make_clip("q", speech((400, 0.1), (720, 0.0), (300, 0.1), (500, 0.001)), RATE)


def take_all(feed: Feed, frames: int) -> list[OutFrame]:
    return [feed.take(feed.due()) for _ in range(frames)]


def test_the_label_is_the_end_of_the_last_audible_window() -> None:
    assert CLIP.speech_end == 1440  # the window [1280, 1440) holds the last loud sample, 1419
    assert make_clip("silence", speech((500, 0.0)), RATE).speech_end == 0
    assert make_clip("given", CLIP.samples, RATE, speech_end=400).speech_end == 400


def test_lead_in_then_the_recording_then_silence() -> None:
    frames = take_all(Feed([CLIP], RATE, 0.0), 19)
    assert [frame.clip for frame in frames] == [None] * 10 + [0] * 6 + [None] * 3
    assert {len(frame.pcm) for frame in frames} == {2 * FRAME}
    sent = np.frombuffer(b"".join(frame.pcm for frame in frames[10:16]), "<i2")
    assert sent.tolist() == np.rint(CLIP.samples * 32768).tolist()
    assert not any(any(frame.pcm) for frame in frames[:10] + frames[16:])


def test_voiced_frames_end_with_the_label() -> None:
    frames = take_all(Feed([CLIP], RATE, 0.0), 16)
    assert [frame.voiced for frame in frames[10:]] == [True, True, False, True, True, False]


def test_speech_goes_on_until_the_label() -> None:
    """Through the pause as well; not with the frame that holds its end, nor after it."""
    frames = take_all(Feed([CLIP], RATE, 0.0), 16)
    assert [frame.goes_on for frame in frames] == [False] * 10 + [True] * 4 + [False] * 2


async def test_after_standing_still_the_source_listens_once() -> None:
    """10 ms before the burst, none inside it, and none where a frame is only a little late."""
    now, slept = 0.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(round(seconds, 6))
        now += seconds

    source = ClipSource([CLIP], RATE, clock=lambda: now, sleep=sleep)
    await source.frame()
    now += 0.05
    await source.frame()
    now += 1.0
    for _ in range(20):
        await source.frame()
    assert slept == [0.02, 0.01]


def test_a_given_label_overrules_the_level() -> None:
    clip = make_clip("q", CLIP.samples, RATE, speech_end=330)
    frames = take_all(Feed([clip], RATE, 0.0), 16)
    assert [frame.voiced for frame in frames[10:]] == [True, True] + 4 * [False]


def test_a_frame_is_due_when_its_last_sample_has_been_spoken() -> None:
    feed = Feed([CLIP], RATE, 5.0)
    assert feed.due() == pytest.approx(5.02)
    feed.take(5.02)
    assert feed.due() == pytest.approx(5.04)


def test_a_late_frame_makes_no_other_one_late() -> None:
    feed = Feed([CLIP], RATE, 0.0)
    feed.take(0.35)
    assert feed.max_late_s == pytest.approx(0.33)
    for _ in range(999):
        feed.take(feed.due())
    assert feed.due() == pytest.approx(20.02)
    assert feed.max_late_s == pytest.approx(0.33)


def test_advance_waits_for_the_recording_that_is_played() -> None:
    feed = Feed([CLIP, CLIP], RATE, 0.0)
    feed.advance()  # in the lead-in
    assert [frame.clip for frame in take_all(feed, 11)] == [None] * 10 + [0]
    feed.advance()  # in the first recording
    assert [frame.clip for frame in take_all(feed, 7)] == [0] * 5 + [None] * 2
    feed.advance()
    assert [frame.clip for frame in take_all(feed, 7)] == [1] * 6 + [None]
    assert not feed.over
    feed.advance()
    assert feed.over


async def test_clip_source_sleeps_until_each_frame_is_due() -> None:
    now = 0.0
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        sleeps.append(seconds)
        now += seconds

    source = ClipSource([CLIP], RATE, clock=lambda: now, sleep=sleep)
    assert await source.frame() == OutFrame(bytes(640), voiced=False, clip=None)
    now += 0.015  # the consumer took its time
    await source.frame()
    assert sleeps == [pytest.approx(0.02), pytest.approx(0.005)]
    while (frame := await source.frame()) is not None:
        if frame.clip is None:
            source.advance()
    assert now == pytest.approx((10 + 6 + 1) * 0.02)


def test_a_file_is_brought_to_the_session_rate(tmp_path: Path) -> None:
    path = tmp_path / "q.wav"
    write_wav(path, speech((8000, 0.1), (4000, 0.0)), 8000)
    clip = load_clip(path, RATE)
    assert clip.name == "q.wav"
    assert len(clip.samples) == pytest.approx(24_000, abs=1)
    assert clip.speech_end == pytest.approx(16_000, abs=160)
    assert len(load_clip(path, 8000).samples) == 12_000


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError):
        load_clip(tmp_path / "none.wav", RATE)


def test_what_is_there_and_no_recording_is_called_what_it_is(tmp_path: Path) -> None:
    """Not "no such file"; a pipe is not opened, which would wait for a writer."""
    pipe = tmp_path / "pipe.wav"
    os.mkfifo(pipe)
    with pytest.raises(AudioFileError, match=r"is a folder, not a recording"):
        load_clip(tmp_path, RATE)
    with pytest.raises(AudioFileError, match=r"pipe\.wav is a pipe, not a recording"):
        load_clip(pipe, RATE)
    with pytest.raises(AudioFileError, match=r"is a device or socket, not a recording"):
        load_clip(os.devnull, RATE)


def test_a_name_that_no_file_can_have_is_told(tmp_path: Path) -> None:
    """In the system's words."""
    with pytest.raises(AudioFileError, match="File name too long"):
        load_clip(tmp_path / ("x" * 300), RATE)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(AudioFileError, match="no such file"):
        load_clip(tmp_path / "file" / "q.wav", RATE)
