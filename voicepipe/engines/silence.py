"""The silence around a piece of synthesised speech: cut in front, limited behind, untouched inside.

Silence before the first sound counts against the felt gap, and silence after the last one decides
how a reply breathes. A voice leaves some 0 to 60 ms in front and 170 to 230 ms behind, whatever the
punctuation.
"""

from __future__ import annotations

import numpy as np

from voicepipe.engines.base import Samples

SILENCE_DBFS = -50.0
"""Level of a 10 ms window at or below which it is silence: the level that defines the felt gap."""
WINDOW_S = 0.01
FADE_S = 0.005
"""Length of the fade where a signal is cut, so that the cut is not heard as a click."""
FADE_IN_S = 0.002
"""In front, what is cut off is hardly louder than nothing, and the sound that follows must not be weakened."""


class SilenceGate:
    """Passes one piece of speech on as it is made, without the silence around it.

    Silence inside is held back until more sound shows that it was inside; what has been passed on is
    never taken back. The first window with a sound is the first that is passed on, and its first 2 ms are faded
    in. However the piece is cut into pushes, the same comes out.
    """

    def __init__(self, rate_hz: int) -> None:
        self._window = round(rate_hz * WINDOW_S)
        self._fade = round(rate_hz * FADE_S)
        self._fade_in = round(rate_hz * FADE_IN_S)
        self._started = False
        self._held: Samples = np.zeros(0, np.float32)

    def push(self, samples: Samples) -> Samples:
        """What of the piece so far may be heard now. Any length in, any length out."""
        self._held = np.concatenate((self._held, samples))
        whole = len(self._held) // self._window
        loud = np.flatnonzero(self._loud(self._held[: whole * self._window]))
        if len(loud) == 0:
            if not self._started:
                self._held = self._held[whole * self._window :]
            return self._held[:0]
        return self._release(int(loud[0]), (int(loud[-1]) + 1) * self._window)

    def finish(self, pause_samples: int) -> Samples:
        """The rest of the piece and `pause_samples` of silence; nothing at all if all was silent.

        The voice's own decay fills the pause as far as it goes.
        """
        short = -len(self._held) % self._window
        last = self.push(np.zeros(short, np.float32))
        if not self._started:
            return self._held[:0]
        tail = np.zeros(pause_samples, np.float32)
        kept = min(pause_samples, len(self._held))
        tail[:kept] = self._held[:kept]
        fade = min(self._fade, kept)
        tail[kept - fade : kept] *= np.linspace(1.0, 0.0, fade, dtype=np.float32)
        self._held = self._held[:0]
        return np.concatenate((last, tail))

    def _release(self, first_loud: int, end: int) -> Samples:
        released, self._held = self._held[:end].copy(), self._held[end:]
        if not self._started:
            self._started = True
            released = released[first_loud * self._window :]
            released[: self._fade_in] *= np.linspace(0.0, 1.0, self._fade_in, dtype=np.float32)
        return released

    def _loud(self, samples: Samples) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        power = np.mean(np.square(samples.reshape(-1, self._window), dtype=np.float32), axis=1)
        return np.asarray(power > 10.0 ** (SILENCE_DBFS / 10.0))
