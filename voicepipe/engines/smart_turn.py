"""Whether the speaker has finished, heard from the sound: smart-turn v3 in ONNX Runtime.

The network (a Whisper-tiny encoder and a linear head, 8 million weights, int8) reads the log-mel of the last 8 s
and gives the probability that the turn is complete. It was trained on turns that end in a short silence, and
scores lower right behind the last sound: at the first silent frame of 34 natural pauses 0.30 on average, 0.48
after 192 ms of silence. The same 192 ms appended as zeros give 0.49 at once.

It answers "complete" with 0.95 and more for silence and noise without any speech. It is to be asked in a pause
that followed speech; audio that is quiet throughout scores 0 here without being shown to it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voicepipe.engines.base import Context, Placement, Samples
from voicepipe.engines.features import HOP_SAMPLES, SAMPLE_RATE_HZ, LogMel
from voicepipe.engines.onnx_session import ERRORS, Session, cpu_session
from voicepipe.engines.windowed import QUIET_RMS, loudest_rms
from voicepipe.errors import EngineError, ModelCorrupt, ModelError, ModelMissing

WINDOW_SAMPLES = 8 * SAMPLE_RATE_HZ
"""What the network reads; its last `TAIL_SAMPLES` are the zeros."""
TAIL_SAMPLES = 3_072
"""192 ms: six frames of the VAD."""
HEARD_SAMPLES = WINDOW_SAMPLES - TAIL_SAMPLES
"""How much of the audio counts: the last 7.8 s."""

_MELS = 80
_FRAMES = WINDOW_SAMPLES // HOP_SAMPLES
_INPUT = "input_features"
_VARIANCE_FLOOR = 1e-7
"""Added to the variance, as in training: silence is not divided by zero."""
_EDGE_SAMPLES = 200
"""Half a window of the spectrum: the last frames of the training features saw the audio mirrored there."""

Features = NDArray[np.float32]


class SmartTurn:
    """`model_path` is the .onnx file. Loading takes about 0.1 s. Keeps nothing from call to call.

    Raises ModelMissing, ModelCorrupt, and ModelError where the file is another network.
    """

    placement: Placement = "thread"
    name = "smart-turn-v3"

    def __init__(self, model_path: Path, *, threads: int = 1) -> None:
        self._session = _load(model_path, threads)
        self._log_mel = LogMel(_MELS)

    def completeness(self, audio: Samples, ctx: Context) -> float:
        """Probability in [0, 1] that the turn is complete; of `audio` the last 7.8 s count. A chunk of bounded
        cost, whatever the length. Raises EngineError."""
        heard = np.nan_to_num(audio[-HEARD_SAMPLES:], nan=0.0, posinf=0.0, neginf=0.0)
        if loudest_rms(heard) < QUIET_RMS:
            return 0.0
        try:
            (scores,) = self._session.run(None, {_INPUT: self.features(heard)[np.newaxis]})
        except ERRORS as error:
            raise EngineError(f"the turn model failed: {error}") from error
        score = float(scores[0, 0])
        if not 0.0 <= score <= 1.0:  # a NaN is in no range either
            raise EngineError("the turn model answered with something that is no probability")
        return score

    def features(self, heard: Samples) -> Features:
        """What the network reads: (80, 800). Silence in front, the zeros behind, the whole at unit variance."""
        window = np.zeros(WINDOW_SAMPLES, np.float32)
        end = WINDOW_SAMPLES - TAIL_SAMPLES
        window[end - len(heard) : end] = heard
        level = (window - window.mean()) / np.sqrt(window.var() + _VARIANCE_FLOOR)
        return self._log_mel(np.pad(level, (0, _EDGE_SAMPLES), mode="reflect"), _FRAMES)


def _load(path: Path, threads: int) -> Session:
    if not path.is_file():
        raise ModelMissing(f"the turn model {path} is not there")
    try:
        session = cpu_session(str(path), threads)
    except ERRORS as error:
        raise ModelCorrupt(f"{path} is not an ONNX model that can be run: {error}") from error
    takes = {node.name: node.shape[1:] for node in session.get_inputs()}
    gives = [node.shape[1:] for node in session.get_outputs()]
    if takes != {_INPUT: [_MELS, _FRAMES]} or gives != [[1]]:
        raise ModelError(f"{path} is no smart-turn v3 model: it takes {takes} and gives {gives}")
    return session
