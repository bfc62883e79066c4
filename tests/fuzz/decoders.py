"""Every decoder of voicepipe, as a function of bytes."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry
from websockets.server import ServerProtocol

from tests.fuzz.mutate import BINARY, HTTP, JSON, JSON_LINES, TOML
from tests.fuzz.target import Broken, Target
from voicepipe.api import error_response
from voicepipe.audio import read_wav, write_wav
from voicepipe.commands.options import read_file
from voicepipe.config.parse import parse_config
from voicepipe.errors import (
    AudioFileError,
    BadField,
    BadFrame,
    BadJson,
    BadStart,
    ClientError,
    ConfigError,
    RecordingError,
    TooLarge,
    UnknownType,
    Unsupported,
    VoicepipeError,
)
from voicepipe.gallery import Gallery
from voicepipe.gate import AccessRules, Crowd, Gate, session_request
from voicepipe.handshake import headers_of, response_of, unreadable
from voicepipe.ingest import INTERNAL_HZ, Ingest
from voicepipe.lag import LagProbe
from voicepipe.metrics import Metrics
from voicepipe.pages import Pages, Readiness
from voicepipe.proxies import Proxies
from voicepipe.replay import as_dict, replay
from voicepipe.sim.calibrate import calibrate
from voicepipe.sim.service import load_service
from voicepipe.sim.shapes import parse_shapes
from voicepipe.sim.traffic import parse_trace
from voicepipe.tape import decode as decode_entry
from voicepipe.tape import encode as encode_entry
from voicepipe.webfiles import Reply
from voicepipe.wire import chat
from voicepipe.wire.dialect import Dialect
from voicepipe.wire.native import NativeDialect, decode_client, encode_client
from voicepipe.wire.realtime.dialect import RealtimeDialect
from voicepipe.wire.realtime.faults import Refusal
from voicepipe.wire.twilio.dialect import TwilioDialect

T = TypeVar("T")
MAX_STEPS = 64
"""What one frame may come to."""
MAX_JUMP_S = 5.0
SCRATCH = Path(tempfile.mkdtemp(prefix="voicepipe-fuzz-"))
"""For decoders that read files."""


def same(first: T, again: T) -> T:
    if first != again and repr(first) != repr(again):  # NaN is not equal to itself
        raise Broken(f"comes to {str(first)[:200]}, and the next time to {str(again)[:200]}")
    return first


def texts(data: bytes) -> str:
    """Of a file: what is no UTF-8 is told by who reads it."""
    return data.decode("utf-8", "replace")


# --- the wire


def native_text(data: bytes) -> object:
    text = data.decode("utf-8", "surrogateescape")
    message = decode_client(text)
    return same(message, decode_client(encode_client(message)))


def native_binary(data: bytes) -> object:
    frame = decode_client(data)
    if encode_client(frame) != data:
        raise Broken("the frame is not what it was made of")
    return frame


def conversation(make: Callable[[], Dialect]) -> Callable[[bytes], object]:
    """A frame a line, of which one that begins with a zero byte is binary. The last error is raised, so that it is
    looked at; each of the others is told to the client, as a session does."""

    def read(data: bytes) -> object:
        dialect, steps, last = make(), 0, None
        for line in data.split(b"\n")[:200]:
            frame = line[1:] if line.startswith(b"\0") else line.decode("utf-8", "surrogateescape")
            try:
                for step in dialect.receive(frame):
                    steps += 1
                    if isinstance(step, str | bytes):
                        msgspec.json.decode(step)
                    elif steps > MAX_STEPS * 200:
                        raise Broken("a frame comes to steps without end")
                for wish in dialect.wishes():
                    same(wish, decode_client(encode_client(wish)))
            except ClientError as error:
                last = error
                for told in dialect.fault(error):
                    msgspec.json.decode(told)
        if last is not None:
            raise last
        return steps

    return read


def pcm(data: bytes) -> object:
    """Head: rate, channels; then messages of clock, length and samples. However they are cut, as many samples come
    out as went in, at 16 kHz."""
    if len(data) < 6:
        return None
    rate, channels = struct.unpack(">IB", data[:5])
    ingest, out, begun = Ingest(rate, channels, max_jump_s=MAX_JUMP_S), 0, False
    rest = data[5:]
    while len(rest) > 6:
        offset, size = struct.unpack(">IH", rest[:6])
        payload, rest = rest[6 : 6 + size], rest[6 + size :]
        try:
            samples = ingest.push(payload, offset)
        except BadField as error:
            if error.field != "offset_samples":
                raise Broken(f"a jump is called {error.field}") from error
            continue
        begun = True
        if not np.isfinite(samples).all() or (np.abs(samples) > 1.01 * 2).any():
            raise Broken("samples that are none")
        out += len(samples)
    if begun:
        out += len(ingest.flush())
        stats = ingest.stats()
        due = (stats.received_frames + stats.filled_frames - stats.dropped_frames) * INTERNAL_HZ / rate
        if abs(out - due) > 0.004 * INTERNAL_HZ:
            raise Broken(f"{out} samples came out, and {due:.0f} went in")
    return out


# --- files


def wav(data: bytes) -> object:
    path, again = SCRATCH / "in.wav", SCRATCH / "out.wav"
    path.write_bytes(data)
    samples, rate_hz = read_wav(path, max_seconds=2.0)
    if len(samples) > 2 * rate_hz or not np.isfinite(samples).all():
        raise Broken("longer than asked for, or no samples")
    write_wav(again, samples, rate_hz)
    written, their_hz = read_wav(again, max_seconds=2.0)
    clipped = np.clip(samples, -1.0, 1.0)
    if their_hz != rate_hz or np.abs(written - clipped).max() > 1 / 16_384:
        raise Broken("what is written is not what was read")
    return len(samples)


def config(data: bytes) -> object:
    path = SCRATCH / "config.toml"
    path.write_bytes(data)
    parsed = parse_config(read_file(path))
    return same(parsed, parse_config(_without_none(msgspec.to_builtins(parsed))))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list | tuple) else value


def shapes(data: bytes) -> object:
    return same(parse_shapes(texts(data)), parse_shapes(texts(data)))


def trace(data: bytes) -> object:
    return same(parse_trace(texts(data).splitlines()), parse_trace(texts(data).splitlines()))


def service(data: bytes) -> object:
    path = SCRATCH / "service.toml"
    path.write_bytes(data)
    return same(load_service(path), load_service(path))


def ledger(data: bytes) -> object:
    return calibrate(data.splitlines())


def tape(data: bytes) -> object:
    """Each line that is an entry is written as it was read; then all of it is replayed."""
    told = data.splitlines(keepends=True)
    for line in told[:50]:
        try:
            entry = decode_entry(line)
        except RecordingError:
            continue
        same(entry, decode_entry(encode_entry(entry)))
    return as_dict(replay(iter(told), "fuzz"))


# --- HTTP


def body(data: bytes) -> object:
    try:
        return same(chat.parse(data), chat.parse(data))
    except VoicepipeError as error:
        response = error_response(error)
        if response.status_code not in (400, 404, 413, 422):
            raise Broken(f"{response.status_code} for {error.code}") from error
        msgspec.json.decode(response.body)
        raise


_METRICS = Metrics(CollectorRegistry())
PEER = "203.0.113.9"
_STRICT = AccessRules(
    tokens=frozenset({"sesame"}), origins=frozenset({"https://a.b"}), proxies=Proxies([PEER, "10.0.0.0/8"])
)
_GATES = (Gate(AccessRules()), Gate(_STRICT))
_PAGES = tuple(
    Pages(
        {},
        gallery=Gallery(None),
        gate=gate,
        metrics=_METRICS,
        lag=LagProbe(lambda lag_s: None),
        readiness=lambda: Readiness(True),
    )
    for gate in _GATES
)


def handshake(data: bytes) -> object:
    """Through the library's parser, by one to three pieces, and through all that is decided before a session."""
    protocol = ServerProtocol()
    for piece in (data[:7], data[7 : len(data) // 2], data[len(data) // 2 :]):
        protocol.receive_data(piece)
    protocol.receive_eof()
    if protocol.handshake_exc is not None:
        _answer(unreadable(data.partition(b" ")[0]))
    return [_statuses(request) for request in _requests(protocol)]


def _requests(protocol: ServerProtocol) -> Iterable[Any]:
    return [event for event in protocol.events_received() if hasattr(event, "headers")]


def _statuses(request: Any) -> list[int]:
    statuses = []
    for gate, pages in zip(_GATES, _PAGES, strict=True):
        visit = gate.visit(request.method, request.path, headers_of(request), PEER)
        reply: Reply | None = pages.answer(visit)
        if reply is None:
            turned_away = gate.check(visit, Crowd(1, 1), port=8765, draining=False)
            wish = session_request(visit) if turned_away is None else turned_away.reply
            reply = wish if isinstance(wish, Reply) else None
        statuses.append(101 if reply is None else _answer(response_of(reply).serialize()))
    return statuses


def _answer(raw: bytes) -> int:
    head, _, rest = raw.partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")
    lengths = [int(field.split(b":")[1]) for field in fields if field.lower().startswith(b"content-length:")]
    if not first.startswith(b"HTTP/1.1 ") or lengths != [len(rest)] or any(b":" not in field for field in fields):
        raise Broken(f"an answer that is none: {raw[:120]!r}")
    return int(first.split()[1])


WIRE = (BadField, BadFrame, BadJson, BadStart, TooLarge, UnknownType, Unsupported)
NAMED = (BadField, BadStart, TooLarge, UnknownType, Unsupported)
TARGETS = {
    target.name: target
    for target in (
        Target("native", native_text, WIRE, NAMED, JSON),
        Target("frames", native_binary, (BadFrame, TooLarge), (TooLarge,), BINARY),
        Target("session", conversation(NativeDialect), (ClientError,), NAMED, JSON_LINES),
        Target(
            "realtime", conversation(lambda: RealtimeDialect({}, {})), (ClientError,), NAMED, JSON_LINES, (Refusal,)
        ),
        Target("twilio", conversation(lambda: TwilioDialect({}, {})), (ClientError,), NAMED, JSON_LINES),
        Target("pcm", pcm, (BadStart,), (BadStart,), BINARY),
        Target("wav", wav, (AudioFileError,), (), BINARY),
        Target("config", config, (ConfigError,), (ConfigError,), TOML),
        Target("shapes", shapes, (ConfigError,), (ConfigError,), TOML),
        Target("service", service, (ConfigError,), (), TOML),
        Target("trace", trace, (ConfigError,), (ConfigError,), JSON_LINES),
        Target("ledger", ledger, (ConfigError,), (), JSON_LINES),
        Target("tape", tape, (RecordingError,), (), JSON_LINES),
        Target("chat", body, (BadField, BadJson, TooLarge, Unsupported), (BadField, Unsupported), JSON),
        Target("handshake", handshake, (), (), HTTP),
    )
}
