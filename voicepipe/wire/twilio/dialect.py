"""The dialect: a phone call's events to the session's messages; what that says to `media`, `mark` and `clear`.

The session begins at `start`, which names the stream; without a stream nothing can be said. A second `start` on the
same socket is another stream of the same conversation. Errors are not told, since Twilio takes nothing but those
three: they are counted, and the call goes on.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from voicepipe import g711
from voicepipe.errors import BadField, ClientError, OutOfOrder, SessionLimit, TooLarge, VoicepipeError
from voicepipe.wire import messages as wire
from voicepipe.wire.dialect import Frame, Step
from voicepipe.wire.twilio import events
from voicepipe.wire.twilio.keypad import Keypad
from voicepipe.wire.twilio.marks import Marks

LOST_SAMPLES: Final = 800
"""So much sound is missing, by the time stamps, before it counts as lost: 100 ms. Less is how Twilio counts."""
MAX_LOST_SAMPLES: Final = 4 * g711.RATE_HZ
"""What is filled with silence; beyond it the stream's clock was set anew."""


class _Parameters(msgspec.Struct, frozen=True):
    """Of `<Parameter>` in TwiML."""

    instructions: wire.Instructions | None = None
    operating_point: wire.OperatingPoint | None = None


class TwilioDialect:
    max_backlog_s = 4.0
    least_burst_s = 0.0

    def __init__(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        self._stream: str | None = None
        self._parameters = _Parameters()
        self._clock = _Clock()
        self._marks = Marks()
        self._keypad = Keypad()
        self._is_sounding = False
        """Something has been sent that no `clear` has thrown away."""

    # --- the seam

    def opening(self) -> wire.SessionStart | None:
        """`start` begins."""
        return None

    def receive(self, data: Frame) -> Iterator[Step]:
        event = events.decode(data)
        match event:
            case events.Connected():
                return
            case events.Start(start=body):
                yield from self._start(body)
                return
        if self._stream is None:
            raise OutOfOrder("the first event of a stream is `start`", field="event")
        if event.stream_sid != self._stream:
            raise BadField("streamSid: not the stream of the last `start`", field="streamSid")
        match event:
            case events.Media(media=media) if media.track == "inbound":
                yield from self._hear(media)
            case events.Mark(mark=mark):
                heard = self._marks.returned(mark.name)
                if heard is not None:
                    yield heard
            case events.Dtmf(dtmf=dtmf):
                yield from self._press(dtmf.digit)
            case events.Stop():
                yield wire.SessionEnd()

    def tell(self, told: wire.Told) -> Iterator[str]:
        if self._stream is None:
            return
        match told:
            case wire.AudioFrame(epoch, offset_samples, pcm):
                self._is_sounding = True
                payload = base64.b64encode(g711.encode(pcm, "ulaw")).decode()
                yield self._say("media", media={"payload": payload})
                yield from self._mark(self._marks.after(epoch, offset_samples + len(pcm) // 2))
            case wire.ReplyDone(_, epoch, samples):
                yield from self._mark(self._marks.after_all(epoch, samples))
            case wire.ReplyInterrupted() | wire.TurnReopened() if self._is_sounding:
                self._is_sounding = False
                self._marks.clear()
                yield self._say("clear")

    def wishes(self) -> Iterable[wire.ClientMessage]:
        return ()

    def fault(self, error: VoicepipeError) -> Iterable[Frame]:
        """There are no words for it."""
        return ()

    def is_fatal(self, error: ClientError) -> bool:
        """Nobody hangs up for one event that makes no sense."""
        return isinstance(error, TooLarge | SessionLimit)

    # --- the caller

    def _start(self, body: events.StartBody) -> Iterator[Step]:
        parameters = _parameters_of(body.custom_parameters)
        if self._stream is None:
            self._stream, self._parameters = body.stream_sid, parameters
            yield wire.SessionStart(
                audio=wire.AudioFormat(g711.RATE_HZ),
                protocol=wire.PROTOCOL,
                output_rate=g711.RATE_HZ,
                instructions=parameters.instructions,
                operating_point=parameters.operating_point,
            )
            return
        if parameters != self._parameters:
            yield wire.SessionUpdate(parameters.instructions, parameters.operating_point)
        self._stream, self._parameters = body.stream_sid, parameters
        self._clock.begin_stream()
        self._marks.clear()

    def _hear(self, media: events.MediaBody) -> Iterator[Step]:
        try:
            data = base64.b64decode(media.payload, validate=True)
        except (binascii.Error, ValueError):
            raise BadField("media.payload: expected base64", field="media.payload") from None
        at_samples = self._clock.place(len(data), media.timestamp)
        yield wire.AudioFrame(0, at_samples & wire.U32_MAX, g711.decode(data, "ulaw"))
        yield from self._enter(self._keypad.hear(self._clock.at_samples))

    def _press(self, key: str) -> Iterator[Step]:
        if self._keypad.is_empty:
            yield wire.ReplyCancel()
        yield from self._enter(self._keypad.press(key, self._clock.at_samples))

    def _enter(self, keys: str | None) -> Iterator[Step]:
        if keys is not None:
            yield wire.InputText(f"DTMF: {keys}")

    # --- the answer

    def _mark(self, name: str | None) -> Iterator[str]:
        if name is not None:
            yield self._say("mark", mark={"name": name})

    def _say(self, event: str, **fields: object) -> str:
        return msgspec.json.encode({"event": event, "streamSid": self._stream, **fields}).decode()


class _Clock:
    """Where a piece of sound lies on the session's clock. Pieces follow each other; where the time stamps say that
    some were lost, as much is left out."""

    def __init__(self) -> None:
        self.at_samples = 0
        """Where the next piece begins."""
        self._zero: int | None = None
        """Where the stream's time 0 lies."""

    def begin_stream(self) -> None:
        self._zero = None

    def place(self, samples: int, timestamp: str | None) -> int:
        begins = self.at_samples
        if timestamp is not None:
            since = int(timestamp) * g711.RATE_HZ // 1000
            lost = 0 if self._zero is None else self._zero + since - begins
            if LOST_SAMPLES <= lost <= MAX_LOST_SAMPLES:
                begins += lost
            elif self._zero is None or abs(lost) > LOST_SAMPLES:
                self._zero = begins - since
        self.at_samples = begins + samples
        return begins


def _parameters_of(custom: Mapping[str, str]) -> _Parameters:
    known = {name: custom[name] for name in _Parameters.__struct_fields__ if name in custom}
    try:
        return msgspec.convert(known, _Parameters)
    except msgspec.ValidationError as exc:
        name = str(exc).partition(" - at `$.")[2].rstrip("`")
        field = f"start.customParameters.{name}"
        raise BadField(f"{field}: not one of the values that it may have", field=field) from None
