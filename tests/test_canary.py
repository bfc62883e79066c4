"""One word through every path, on real sockets, with every logger at DEBUG: no log, metric, ledger, trace has it.

It is said, typed, answered, in instructions, tools, their arguments and results, in tokens right and wrong, in what
nobody can parse, and in errors of engines, at each door.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from tests.canary_server import CANARY, METRICS_TOKEN, TOKEN, TWILIO_TOKEN
from tests.wire.twilio.calling import connected, start
from voicepipe.wire.twilio.signature import signature

BEARER = {"Authorization": f"Bearer {TOKEN}"}
START = {"type": "session.start", "protocol": "voicepipe.v1", "audio": {"rate": 16000}}
TOOL = {
    "name": "find",
    "description": f"Finds {CANARY}.",
    "parameters": {"type": "object", "properties": {"what": {"type": "string", "description": CANARY}}},
}


@dataclass
class House:
    port: int
    api: int
    folder: Path
    log: str = ""
    metrics: str = ""

    def url(self, path: str) -> str:
        return f"ws://127.0.0.1:{self.port}{path}"


@contextmanager
def house(folder: Path, llm: str = "") -> Iterator[House]:
    """Its log and its metrics are there when the block has ended."""
    argv = [sys.executable, "-m", "tests.canary_server", str(folder / "l.jsonl"), str(folder / "t.json"), llm]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, cwd=Path(__file__).parent.parent)
    try:
        assert process.stdout is not None
        ports = process.stdout.readline().split()
        assert len(ports) == 2, (folder / "log").read_text()
        built = House(int(ports[0]), int(ports[1]), folder)
        yield built
        request = urllib.request.Request(f"http://127.0.0.1:{built.port}/metrics")
        request.add_header("Authorization", f"Bearer {METRICS_TOKEN}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            built.metrics = answer.read().decode()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        built.log = (folder / "log").read_text()
    finally:
        process.kill()
        process.communicate()


def assert_nothing(built: House, *, reached: tuple[str, ...]) -> None:
    """`reached`: what the log has to have, so that it is known to be one."""
    for text in reached:
        assert text in built.log, f"the log says nothing of {text!r}"
    assert "DEBUG asyncio" in built.log and "Traceback" not in built.log
    told = {"log": built.log, "metrics": built.metrics}
    told |= {name: (built.folder / name).read_text() for name in ("l.jsonl", "t.json")}
    assert all(told.values())
    for name, text in told.items():
        lines = [line[:300] for line in text.splitlines() if CANARY in line.lower()]
        assert lines == [], f"{name} holds the word: {lines[:5]}"


@asynccontextmanager
async def session(built: House, path: str = "/v1/voice", **more: Any) -> AsyncIterator[ClientConnection]:
    async with connect(built.url(path), proxy=None, additional_headers=BEARER, **more) as ws:
        yield ws


async def until(ws: ClientConnection, *kinds: str) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while True:
            data = await ws.recv()
            if isinstance(data, str) and (message := json.loads(data)).get("type") in kinds:
                return dict(message)


async def say(ws: ClientConnection, message: object) -> None:
    await ws.send(json.dumps(message))


# --- the native door


async def talk(built: House) -> None:
    """Said, typed, answered; tools and their results; then an engine's error that quotes it."""
    async with session(built) as ws:
        await say(ws, {**START, "instructions": f"Think of {CANARY}.", "tools": [TOOL]})
        await say(ws, {"type": "history.add", "role": "user", "text": CANARY})
        await say(ws, {"type": "input.text", "text": f"What of {CANARY}?"})
        call = await until(ws, "tool.call")
        assert CANARY in json.dumps(call)
        await say(ws, {"type": "tool.result", "call_id": call["call_id"], "output": f"{CANARY} is found"})
        await say(ws, {"type": "reply.create"})
        await until(ws, "turn.ended")
    async with session(built) as ws:
        await say(ws, START)
        tone = (0.3 * np.sin(np.arange(320) * 0.2) * 32767).astype("<i2").tobytes()
        for number in range(150):
            pcm = tone if number < 50 else bytes(640)
            await ws.send(bytes(4) + (320 * number).to_bytes(4, "big") + pcm)
            await asyncio.sleep(0.02)
        assert CANARY in (await until(ws, "transcript.final"))["text"]
        await until(ws, "turn.ended")
    async with session(built) as ws:
        await say(ws, {**START, "instructions": f"FAIL {CANARY}"})
        await say(ws, {"type": "input.text", "text": CANARY})
        assert (await until(ws, "turn.ended"))["verdict"] == "failed"


NONSENSE: tuple[str | bytes, ...] = (
    f"{{{CANARY}",
    f'"{CANARY}"',
    json.dumps({"type": CANARY}),
    json.dumps({"type": "input.text", "text": CANARY, CANARY: CANARY}),
    json.dumps({"type": "playback", "epoch": CANARY}),
    json.dumps({"type": "reply.create", "tool_choice": CANARY}),
    json.dumps({"type": "history.delete", "id": CANARY}),
    json.dumps({"type": "session.update", "session": {CANARY: CANARY}}),
    json.dumps({"type": "conversation.item.create", "item": {"type": CANARY, CANARY: 1}}),
    json.dumps({"type": "input_audio_buffer.append", "audio": CANARY}),
    json.dumps({"event": CANARY, "streamSid": CANARY}),
    CANARY.encode(),
    bytes(8) + CANARY.encode(),
    CANARY * 9000,
    f'{{"type": "input.text", "text": "{CANARY * 9000}"}}',
)


async def talk_nonsense(built: House, path: str) -> None:
    """Each in a session of its own, started and not."""
    for number, frame in enumerate((*NONSENSE, *NONSENSE)):
        try:
            async with session(built, path) as ws:
                if number >= len(NONSENSE):
                    await say(ws, start() if path == "/v1/twilio" else START)
                await ws.send(frame)
                async with asyncio.timeout(0.2):
                    while True:
                        await ws.recv()
        except (ConnectionClosed, TimeoutError):
            pass
    async with session(built, path) as ws:  # bytes that are no UTF-8
        ws.protocol.send_text(CANARY.encode() + b"\xff")
        ws.transport.write(b"".join(ws.protocol.data_to_send()))
        with pytest.raises(ConnectionClosed):
            while True:
                await ws.recv()


async def knock(built: House) -> None:
    """Tokens that are wrong, in every place; headers and queries that nobody can read."""
    wrong = f"{CANARY}-wrong"
    for path in ("/v1/voice", "/v1/realtime", "/v1/twilio"):
        for more in (
            {"additional_headers": {"Authorization": f"Bearer {wrong}"}},
            {"additional_headers": {"Authorization": f"{wrong} {wrong}"}},
            {"subprotocols": ["voicepipe.v1", wrong]},
            {"subprotocols": ["realtime", f"openai-insecure-api-key.{wrong}"]},
            {"additional_headers": {"X-Twilio-Signature": wrong}},
        ):
            for query in ("", f"?token={wrong}", f"?budget_ms={wrong}", f"?route={wrong}"):
                try:
                    async with connect(built.url(path + query), proxy=None, **more) as ws:  # type: ignore[arg-type]
                        with pytest.raises(ConnectionClosed):
                            while True:
                                await ws.recv()
                except (InvalidHandshake, InvalidMessage):
                    pass
    for head in (
        f"GET /v1/voice HTTP/1.1\r\nSec-WebSocket-Protocol: voicepipe.v1, {wrong} {wrong}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        f"GET /v1/voice HTTP/1.1\r\nUpgrade: {wrong}\r\nConnection: {wrong}\r\n"
        f"Authorization: Bearer {TOKEN}\r\n\r\n",
        f"GET /v1/voice HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: {wrong}\r\n"
        f"Sec-WebSocket-Key: {wrong}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        f"GET /{wrong} HTTP/1.1\r\n{wrong}\r\n\r\n",
        f"{wrong}\r\n\r\n",
        f"GET /{wrong}?{wrong} HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        for port in (built.port, built.api):
            await exchange(port, head.encode())


async def exchange(port: int, request: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        async with asyncio.timeout(1.0):
            await reader.read()
    except (TimeoutError, ConnectionError):
        pass
    writer.close()


# --- the other doors


async def talk_realtime(built: House) -> None:
    async with session(built, "/v1/realtime?model=m") as ws:
        tool = {"type": "function", **TOOL}
        update = {"type": "realtime", "instructions": CANARY, "tools": [tool]}
        await say(ws, {"type": "session.update", "session": update})
        content = [{"type": "input_text", "text": f"FAIL {CANARY}"}]
        item = {"type": "message", "role": "user", "content": content}
        await say(ws, {"type": "conversation.item.create", "item": item})
        await say(ws, {"type": "response.create"})
        await until(ws, "response.done")


async def call(built: House) -> None:
    """A call with its own instructions, signed; its parameters are the caller's."""
    url = f"ws://127.0.0.1:{built.port}/v1/twilio"
    signed = {"X-Twilio-Signature": signature(TWILIO_TOKEN, url.replace("ws://", "wss://")).decode()}
    async with connect(url, proxy=None, additional_headers=signed) as ws:
        await say(ws, connected())
        await say(ws, start(instructions=f"FAIL {CANARY}", caller=CANARY))
        for digit in "12#":
            await say(ws, {"event": "dtmf", "streamSid": CANARY, "dtmf": {"digit": digit}})
        await asyncio.sleep(0.5)


def ask(built: House) -> None:
    """Texts: right and wrong, with and without the token."""
    chat = {"model": "scripted", "messages": [{"role": "user", "content": CANARY}], "max_tokens": 4}
    bodies: list[Any] = [
        chat,
        {**chat, "stream": True},
        {**chat, "model": CANARY},
        {**chat, CANARY: CANARY},
        CANARY,
    ]
    for body in bodies:
        for token in (TOKEN, f"{CANARY}-wrong"):
            post(built, "/v1/chat/completions", json.dumps(body).encode(), token)
    post(built, "/v1/chat/completions", CANARY.encode(), TOKEN)
    post(built, f"/v1/{CANARY}", b"{}", TOKEN)
    post(built, f"/v1/models/{CANARY}", None, TOKEN)


def post(built: House, path: str, body: bytes | None, token: str) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{built.api}{path}", body)
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.read()


@pytest.mark.timeout(400)
def test_no_log_metric_ledger_or_trace_holds_what_was_said_or_a_token(tmp_path: Path) -> None:
    with house(tmp_path) as built:
        asyncio.run(talk(built))
        for path in ("/v1/voice", "/v1/realtime", "/v1/twilio"):
            asyncio.run(talk_nonsense(built, path))
        asyncio.run(knock(built))
        asyncio.run(talk_realtime(built))
        asyncio.run(call(built))
        ask(built)
    assert_nothing(built, reached=("session 1 ended", "refused, unauthorized", "chunk failed: ValueError"))


class Provider(BaseHTTPRequestHandler):
    """An endpoint that works until it is to fail: then it refuses, and quotes all that it was sent."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "FAIL" in asked:
            error = {"message": f"{dict(self.headers)} {asked}", "type": "bad", "code": CANARY}
            return self.give(400, "application/json", json.dumps({"error": error}))
        delta = {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]}
        self.give(200, "text/event-stream", f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n")

    def give(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test's own output is none of the server's."""


@contextmanager
def provider() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_port
        serving.shutdown()


def test_what_a_model_behind_a_url_is_sent_and_answers_is_in_no_log(tmp_path: Path) -> None:
    """Neither prompts, nor what a provider quotes of them, nor the key, nor a password in the URL."""

    async def ask_it(built: House) -> None:
        async with session(built) as ws:
            await say(ws, {**START, "instructions": f"FAIL {CANARY}"})
            await say(ws, {"type": "input.text", "text": CANARY})
            assert (await until(ws, "turn.ended"))["verdict"] == "failed"

    with provider() as port, house(tmp_path, f"http://user:{CANARY}@127.0.0.1:{port}/v1") as built:
        asyncio.run(ask_it(built))
    assert_nothing(built, reached=("INFO httpx: HTTP Request: POST", "failed: engine_", "session 1 ended"))
