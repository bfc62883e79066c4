"""What a session takes of what its client sends: what `core.rates` refuses is counted, and told in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from voicepipe.config import LimitsConfig
from voicepipe.core.rates import Hush, Over, Rates, RateSettings, What
from voicepipe.errors import ClientError, InputOverrun, RateExceeded, RateLimited
from voicepipe.services import Observer
from voicepipe.wire.dialect import Dialect, Frame, Step
from voicepipe.wire.messages import AudioFrame

BYTES_PER_SAMPLE = 2


class Intake:
    def __init__(
        self,
        dialect: Dialect,
        limits: LimitsConfig,
        *,
        bytes_per_s: int,
        observer: Observer,
        clock: Callable[[], float],
    ) -> None:
        """`bytes_per_s`: of the client's sound."""
        self._dialect = dialect
        self._limits = limits
        self._bytes_per_s = bytes_per_s
        self._burst_s = max(limits.audio_burst_s, dialect.least_burst_s)
        self._observer = observer
        self._clock = clock
        self._rates = Rates(
            RateSettings(
                limits.audio_rate,
                self._burst_s,
                limits.messages_per_s,
                limits.messages_burst,
                limits.rate_warnings,
            ),
            clock(),
        )
        self._hush = Hush()
        self._passed_over_s = 0.0

    def steps(self, frame: Frame) -> Iterator[Step]:
        """What the session is to do with a frame of the client; nothing where it came too fast. A frame that holds
        no sound counts as a message, whatever else is wrong with it. Raises ClientError."""
        counted = False
        try:
            for step in self._dialect.receive(frame):
                if isinstance(step, AudioFrame):
                    counted = True
                    if not self._takes_sound(step.pcm):
                        return
                elif not counted:
                    counted = True
                    if not self._takes_message(len(frame)):
                        return
                yield step
        except ClientError:
            if not counted and not self._takes_message(len(frame)):
                return
            raise
        if not counted:
            self._takes_message(len(frame))

    def on_passed_over(self, seconds: float) -> InputOverrun | None:
        """So much was taken, and has waited for too long to be listened to. What the client should know of it."""
        self._passed_over_s += seconds
        self._observer.input_dropped("backlog", seconds)
        if not self._hush.on_event(self._clock()):
            return None
        return InputOverrun(
            f"sound waited for more than {self._dialect.max_backlog_s:g} s to be listened to, and the oldest was "
            f"passed over: {self._passed_over_s:.1f} s so far",
            field="audio",
        )

    def _takes_sound(self, pcm: bytes) -> bool:
        """Raises RateLimited where it is not taken and the client should know; RateExceeded at the end."""
        seconds = len(pcm) / self._bytes_per_s
        over = self._rates.on_sound(seconds, self._clock())
        if over is None:
            return True
        self._observer.input_dropped("rate", seconds)
        return self._refused(over)

    def _takes_message(self, size: int) -> bool:
        """The same of what is no sound, and has so many bytes or characters."""
        over = self._rates.on_message(size, self._clock())
        if over is None:
            return True
        self._observer.message_dropped()
        return self._refused(over)

    def _refused(self, over: Over) -> bool:
        if over.ends:
            raise RateExceeded(self._text(over), field=over.what.value)
        if over.told:
            raise RateLimited(self._text(over), field=over.what.value)
        return False

    def _text(self, over: Over) -> str:
        limits = self._limits
        if over.what is What.SOUND:
            return (
                f"sound comes faster than {limits.audio_rate:g} times real time with {self._burst_s:g} s at once "
                f"(limits.audio_rate, audio_burst_s), and what is beyond that is thrown away: {over.lost:.2f} s so "
                "far. Send it as it is spoken"
            )
        return (
            f"more than {limits.messages_per_s:g} messages a second with {limits.messages_burst} at once "
            "(limits.messages_per_s, messages_burst), and what is beyond that is thrown away: "
            f"{over.lost:.0f} of them so far"
        )
