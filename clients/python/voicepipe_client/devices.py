"""Microphone and loudspeaker, through PortAudio. The one file that needs the `mic` extra."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from voicepipe.errors import EnvironmentFailure, MissingExtra, NoMicrophone
from voicepipe_client.source import FRAME_S, OutFrame

_INSTEAD = "a recording does as well: voicepipe talk --wav question.wav"

_missing: EnvironmentFailure | None = None
try:
    import sounddevice
except ImportError:
    _missing = MissingExtra(
        "a microphone needs the `mic` extra: pip install 'voicepipe-realtime[mic]' "
        "(from a checkout: pip install -e '.[mic]'); " + _INSTEAD
    )
except OSError as error:  # sounddevice is there, the PortAudio library is not
    _missing = NoMicrophone(f"PortAudio cannot be loaded ({error}); {_INSTEAD}")

_QUEUE_FRAMES = 50
"""1 s of microphone; a loop that is later than that loses the oldest."""


def _portaudio() -> Any:
    if _missing is not None:
        raise _missing
    return sounddevice


class Microphone:
    """The default microphone as a `Source`. Use as an async context manager.

    Raises MissingExtra or NoMicrophone on entry.
    """

    labelled = False

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE_FRAMES)
        self._stream: Any = None
        self.dropped_frames = 0

    async def __aenter__(self) -> Self:
        portaudio = _portaudio()
        loop = asyncio.get_running_loop()

        def on_sound(data: Any, frames: int, time: Any, status: Any) -> None:
            loop.call_soon_threadsafe(self._put, bytes(data))

        try:
            self._stream = portaudio.RawInputStream(
                samplerate=self._rate_hz,
                blocksize=round(self._rate_hz * FRAME_S),
                channels=1,
                dtype="int16",
                callback=on_sound,
            )
            self._stream.start()
        except portaudio.PortAudioError as error:
            raise NoMicrophone(f"no microphone can be opened ({error}); {_INSTEAD}") from None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    async def frame(self) -> OutFrame | None:
        return OutFrame(await self._queue.get(), voiced=False, clip=None)

    def advance(self) -> None:
        """A person goes on when they like."""

    def _put(self, pcm: bytes) -> None:
        if self._queue.full():
            self._queue.get_nowait()
            self.dropped_frames += 1
        self._queue.put_nowait(pcm)


class Loudspeaker:
    """The default output. A context manager; entry raises MissingExtra or NoMicrophone."""

    latency_s: float = 0.0

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._lock = threading.Lock()
        self._pending = bytearray()
        self._stream: Any = None

    def __enter__(self) -> Self:
        portaudio = _portaudio()
        try:
            self._stream = portaudio.RawOutputStream(
                samplerate=self._rate_hz, channels=1, dtype="int16", callback=self._fill
            )
            self._stream.start()
        except portaudio.PortAudioError as error:
            raise NoMicrophone(f"no loudspeaker can be opened ({error}); {_INSTEAD}") from None
        self.latency_s = float(self._stream.latency)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def play(self, pcm: bytes) -> None:
        """Queue PCM16 behind what is queued. The server paces it: the queue stays short."""
        with self._lock:
            self._pending += pcm

    def flush(self) -> None:
        with self._lock:
            self._pending.clear()

    def _fill(self, out: Any, frames: int, time: Any, status: Any) -> None:
        """On PortAudio's thread: `out` takes 2 * frames bytes, silence where nothing is queued."""
        with self._lock:
            piece = bytes(self._pending[: 2 * frames])
            del self._pending[: 2 * frames]
        out[:] = piece + bytes(2 * frames - len(piece))
