"""The short sounds of the rung "acknowledge": spoken once at start, kept, and brought to each session's rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from voicepipe.audio import WINDOW_S, Samples, first_audible, last_audible, resample, silence, to_pcm16
from voicepipe.engines.base import Tts
from voicepipe.errors import EngineError
from voicepipe.meter import OnThread
from voicepipe.warmup import speak


async def render(tts: Tts, texts: Sequence[str], on_thread: OnThread) -> tuple[Samples, ...]:
    """Each text at the voice's own rate, without the silence around it: content is to follow at once. Raises
    EngineError where the voice makes no sound of one."""
    rendered = []
    for text in texts:
        spoken = await speak(tts, text, on_thread)
        begin, end = first_audible(spoken, tts.sample_rate_hz), last_audible(spoken, tts.sample_rate_hz)
        if begin is None or end is None:
            raise EngineError(f"the voice has no sound for the acknowledgement {text!r}")
        rendered.append(spoken[begin:end])
    return tuple(rendered)


def at_rate(sounds: Sequence[Samples], src_hz: int, dst_hz: int) -> tuple[bytes, ...]:
    """PCM16LE at `dst_hz`, filled up to whole windows of audibility: what follows begins a window of its own, so
    that a client can tell exactly when content is heard first."""
    window = round(dst_hz * WINDOW_S)
    pcm = []
    for sound in sounds:
        samples = resample(sound, src_hz, dst_hz)
        pcm.append(to_pcm16(np.concatenate([samples, silence(-len(samples) % window)])))
    return tuple(pcm)
