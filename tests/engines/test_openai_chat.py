"""The remote Llm against a real HTTP server on the loopback interface, whose every byte the test writes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from voicepipe.engines.base import ChatMessage, Context, LlmStep, Prompt, ToolOffer, ToolUse
from voicepipe.engines.openai_chat import OpenAiChat
from voicepipe.errors import (
    ConfigError,
    EngineBusy,
    EngineError,
    EngineTimeout,
    EngineUnavailable,
)

CONTEXT = Context("s", 1, 1, 1)
PROMPT = Prompt((ChatMessage("system", "Be brief."), ChatMessage("user", "Canary words.")), 20)
KEY = "sk-canary-123"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class Peer:
    """One HTTP/1.1 server. `script` answers each request; `hung_up` is set when a client goes away."""

    def __init__(self, script: Callable[[Peer, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                self.heads.append(head)
                self.requests.append(json.loads(await reader.readexactly(size)))
                self.asked.set()
                await self.script(self, writer)
                await writer.drain()
                if writer.is_closing():
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.hung_up.set()
            writer.close()


@asynccontextmanager
async def peer(script: Callable[[Peer, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[Peer]:
    host = Peer(script)
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    async with server:
        host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield host


@asynccontextmanager
async def engine(url: str, **options: Any) -> AsyncIterator[OpenAiChat]:
    llm = OpenAiChat(url, "tiny", api_key=KEY, **options)
    try:
        yield llm
    finally:
        await llm.aclose()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(content: str | None = None, finish: str | None = None, **delta: Any) -> bytes:
    if content is not None:
        delta["content"] = content
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def says(*events: bytes) -> Callable[[Peer, asyncio.StreamWriter], Awaitable[None]]:
    async def script(_: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"".join(map(chunk, events)) + END)

    return script


def answers(raw: bytes) -> Callable[[Peer, asyncio.StreamWriter], Awaitable[None]]:
    async def script(_: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    return script


async def silence(_: Peer, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + chunk(b": welcome\n\n"))


async def replies(llm: OpenAiChat, prompt: Prompt = PROMPT) -> list[LlmStep]:
    slot = llm.open("s")
    generation = slot.generate(prompt, CONTEXT)
    steps = [await generation.step()]
    while steps[-1].finish is None:
        steps.append(await generation.step())
    slot.close()
    return steps


def text(steps: list[LlmStep]) -> str:
    return "".join(step.text for step in steps)


REPLY = (event("", role="assistant"), event("Hel"), event("lo."), event(finish="stop"))


@pytest.mark.parametrize(("small_model", "asked"), [("tinier", ["tiny", "tinier"]), ("", ["tiny", "tiny"])])
async def test_the_smaller_model_answers_what_is_left_to_it(small_model: str, asked: list[str]) -> None:
    """By its name in the request, where there is one."""
    async with peer(says(*REPLY)) as host, engine(host.url, small_model=small_model) as llm:
        assert llm.has_small is bool(small_model)
        for small in (False, True):
            await replies(llm, replace(PROMPT, small=small))
        assert [request["model"] for request in host.requests] == asked


async def test_a_reply_is_streamed_and_the_request_is_what_the_api_wants() -> None:
    async with peer(says(*REPLY, b"data: [DONE]\n\n")) as host, engine(host.url) as llm:
        steps = await replies(llm)
    assert text(steps) == "Hello." and steps[-1].finish == "stop"
    assert sum(step.tokens for step in steps) == 2
    assert host.requests == [
        {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Canary words."},
            ],
            "stream": True,
            "max_tokens": 20,
        }
    ]
    assert host.heads[0].startswith("POST /v1/chat/completions HTTP/1.1")
    assert f"authorization: bearer {KEY}" in host.heads[0].lower()


async def test_options_reach_the_request() -> None:
    options = {"max_tokens_field": "max_completion_tokens", "temperature": 0.5}
    async with peer(says(*REPLY)) as host, engine(host.url + "/", **options) as llm:
        await replies(llm)
    assert host.requests[0]["max_completion_tokens"] == 20
    assert host.requests[0]["temperature"] == 0.5
    assert "max_tokens" not in host.requests[0]


async def test_a_finished_stream_gives_its_connection_to_the_next() -> None:
    """A new connection would cost every turn its round trips."""
    async with peer(says(*REPLY, b"data: [DONE]\n\n")) as host, engine(host.url) as llm:
        for _ in range(3):
            await replies(llm)
            while llm._closers:
                await asyncio.wait(llm._closers)
    assert (len(host.requests), host.connections) == (3, 1)


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
async def test_deltas_may_be_cut_anywhere(size: int) -> None:
    stream = b": ping\n\n" + b"".join((*REPLY[:2], event("llo, 🦜"), event(finish="length")))
    stream = stream.replace(b"\\ud83e\\udd9c", "🦜".encode())
    parts = [stream[i : i + size] for i in range(0, len(stream), size)]
    async with peer(says(*parts)) as host, engine(host.url) as llm:
        steps = await replies(llm)
    assert text(steps) == "Helllo, 🦜" and steps[-1].finish == "length"


async def test_what_is_not_content_is_not_spoken() -> None:
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 1}}\n\n'
    thinking = event(reasoning_content="Hmm"), event(reasoning="Hmm"), event(content=None)
    odd = b'data: {"choices": [{"delta": null}]}\n\n'
    stream = (usage, *thinking, odd, event("Yes."), event(finish="stop"), usage)
    async with peer(says(*stream)) as host, engine(host.url) as llm:
        assert text(await replies(llm)) == "Yes."


async def test_done_without_a_finish_reason_is_an_end() -> None:
    async with peer(says(event("Yes."), b"data: [DONE]\n\n")) as host, engine(host.url) as llm:
        steps = await replies(llm)
    assert text(steps) == "Yes." and steps[-1].finish == "stop"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (says(event("Yes")), "ended the reply in the middle"),
        (answers(HEAD + chunk(event("Yes"))[:-9]), None),
        (says(event("Y"), b'data: {"error": {"type": "server_error"}}\n\n'), r"\(server_error\)"),
        (says(event("Y"), b'data: {"error": "canary words"}\n\n'), "broke off with an error;"),
        (says(b"data: {canary\n\n"), "not JSON"),
        (says(b"data: [1]\n\n"), "not an object"),
        (answers(b"HTTP/1.1 401 No\r\ncontent-length: 6\r\n\r\ncanary"), "401: check the API key"),
        (
            answers(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"),
            r"404: check engines\.llm \(--llm\) and engines\.llm_model",
        ),
        (answers(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n"), "answered 500: .*log"),
        (answers(b"HTTP/1.1 302 Go\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"), "answered 302"),
        (
            answers(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"),
            r"answered with application/json, not an event stream",
        ),
        (
            answers(b"HTTP/1.1 200 OK\r\ncontent-type: text/html; x=y\r\ncontent-length: 6\r\n\r\n<html>"),
            r"answered with text/html, not an event stream; is this an OpenAI-compatible endpoint .*--llm",
        ),
        (
            answers(b"HTTP/1.1 200 OK\r\ncontent-type: odd words\r\ncontent-length: 0\r\n\r\n"),
            "answered with something else, not an event stream",
        ),
        (answers(b"SSH-2.0-nonsense\r\n"), "broke"),
    ],
)
async def test_failures_are_named_and_hold_no_secret(
    script: Any, message: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Also what a request logs at debug level holds neither the key nor what was said."""
    caplog.set_level(logging.DEBUG)

    async def then_close(host: Peer, writer: asyncio.StreamWriter) -> None:
        await script(host, writer)
        await writer.drain()
        writer.close()

    async with peer(then_close) as host, engine(host.url) as llm:
        with pytest.raises(EngineUnavailable, match=message) as caught:
            await replies(llm)
        assert host.url.removeprefix("http://").removesuffix("/v1") in caught.value.message, "HOST:PORT"
        shown = f"{caught.value} {caught.value!r} {llm!r} {caplog.text}".lower()
        assert "canary" not in shown


async def test_connection_refused() -> None:
    async with peer(silence) as host:
        url = host.url
    async with engine(url) as llm:
        with pytest.raises(EngineUnavailable, match=r"cannot connect to 127\.0\.0\.1:\d+: start .*\(--llm\)"):
            await replies(llm)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_slot_that_was_told_to_wait_waits_and_others_do_not(status: int) -> None:
    async def script(host: Peer, writer: asyncio.StreamWriter) -> None:
        if len(host.requests) == 1:
            head = b"HTTP/1.1 %d X\r\nretry-after: 30\r\ncontent-length: 0\r\n\r\n"
            writer.write(head % status)
        else:
            await says(*REPLY)(host, writer)

    async with peer(script) as host, engine(host.url) as llm:
        slot = llm.open("a")
        with pytest.raises(EngineUnavailable, match=rf"{status}: .* after 30 s"):
            await slot.generate(PROMPT, CONTEXT).step()
        with pytest.raises(EngineUnavailable, match="asked to wait"):
            await slot.generate(PROMPT, CONTEXT).step()
        assert len(host.requests) == 1, "the second try must not reach the endpoint"
        assert text(await replies(llm)) == "Hello."


async def test_the_pause_doubles_up_to_a_cap_and_a_success_ends_it() -> None:
    async with engine("http://127.0.0.1:1/v1") as llm:
        slot = llm.open("a")
        assert [slot.on_busy(None) for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
        assert slot.on_busy(1e9) == 60.0
        slot.on_success()
        assert slot.on_busy(None) == 0.5


async def test_a_stream_that_says_nothing_ends_in_a_timeout_and_is_closed() -> None:
    async with peer(silence) as host, engine(host.url, timeout_s=0.05) as llm:
        with pytest.raises(EngineTimeout, match=r"sent nothing for 0\.05 s"):
            await replies(llm)
        await host.hung_up.wait()


async def test_comments_alone_are_nothing() -> None:
    async def chatter(host: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while not writer.is_closing():
            writer.write(chunk(b":" + b"ping" * 16384 + b"\n\n"))
            await writer.drain()  # waits for the reader, once the socket's buffers are full

    async with peer(chatter) as host, engine(host.url, timeout_s=0.05) as llm:
        with pytest.raises(EngineTimeout):
            await replies(llm)
        await host.hung_up.wait()


async def test_headers_that_never_come_end_in_a_timeout() -> None:
    async def mute(host: Peer, writer: asyncio.StreamWriter) -> None:
        await writer.drain()

    async with peer(mute) as host, engine(host.url, timeout_s=0.05) as llm:
        with pytest.raises(EngineTimeout):
            await replies(llm)


async def test_cancel_wakes_a_running_step_and_closes_the_stream() -> None:
    async with peer(silence) as host, engine(host.url) as llm:
        generation = llm.open("s").generate(PROMPT, CONTEXT)
        step = asyncio.create_task(generation.step())
        await host.asked.wait()
        generation.cancel()
        generation.cancel()
        assert await step == LlmStep("", 0, finish="stop", cut=True)
        await host.hung_up.wait()
        assert not llm._closers


async def test_cancel_between_steps_closes_the_stream() -> None:
    async def endless(_: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(event("one")))

    async with peer(endless) as host, engine(host.url) as llm:
        generation = llm.open("s").generate(PROMPT, CONTEXT)
        assert (await generation.step()).text == "one"
        generation.cancel()
        await host.hung_up.wait()


async def test_cancel_before_the_first_step_asks_nothing() -> None:
    async with peer(silence) as host, engine(host.url) as llm:
        generation = llm.open("s").generate(PROMPT, CONTEXT)
        generation.cancel()
        assert (await generation.step()).finish == "stop"
        assert not host.requests


async def test_a_cancelled_task_closes_the_stream_and_stays_cancelled() -> None:
    async with peer(silence) as host, engine(host.url) as llm:
        step = asyncio.create_task(llm.open("s").generate(PROMPT, CONTEXT).step())
        await host.asked.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await host.hung_up.wait()


async def test_closing_a_slot_closes_its_stream() -> None:
    async def endless(_: Peer, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunk(event("one")))

    async with peer(endless) as host, engine(host.url, slots=1) as llm:
        slot = llm.open("s")
        await slot.generate(PROMPT, CONTEXT).step()
        slot.close()
        slot.close()
        await host.hung_up.wait()
        llm.open("t")
        with pytest.raises(EngineBusy, match="all 1 slots"):
            llm.open("u")
        with pytest.raises(EngineError, match="given back"):
            slot.generate(PROMPT, CONTEXT)


async def test_a_closed_engine_leases_nothing() -> None:
    async with engine("http://127.0.0.1:1/v1") as llm:
        await llm.aclose()
        with pytest.raises(EngineError, match="is closed"):
            llm.open("s")


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://host/v1", "http://", "http://[::x"])
def test_urls_that_cannot_work_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAiChat(url, "tiny")
    assert caught.value.field == "engines.llm" and "--llm" in caught.value.message


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAiChat("http://host/v1", "tiny", timeout_s=0)
    assert caught.value.field == "timeout_s"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://host/v1", "host:80"),
        ("https://host/v1", "host:443"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
        ("https://user:secret@host:1/v1", "host:1"),
    ],
)
async def test_an_endpoint_is_named_by_host_and_port(url: str, address: str) -> None:
    async with engine(url) as llm:
        assert repr(llm) == f"OpenAiChat(address={address!r}, model='tiny')"


@pytest.mark.parametrize("kind", [b"", b"text/plain; charset=utf-8", b"Text/Event-Stream"])
async def test_a_stream_is_read_whatever_loose_type_it_has(kind: bytes) -> None:
    named = b"content-type: " + kind + b"\r\n" if kind else b""
    start = b"HTTP/1.1 200 OK\r\n" + named + b"transfer-encoding: chunked\r\n\r\n"
    async with peer(answers(start + b"".join(map(chunk, REPLY)) + END)) as host, engine(host.url) as llm:
        assert text(await replies(llm)) == "Hello."


# --- tools

TOOL = ToolOffer("weather", "Tells it.", '{"type": "object"}')
USE = ToolUse("c1", "weather", '{"place": "Oslo"}')


def calls(*deltas: Any) -> bytes:
    return event(tool_calls=list(deltas))


def piece(index: int = 0, ident: str | None = None, **function: str) -> dict[str, Any]:
    return {"index": index, "type": "function", "function": function} | ({} if ident is None else {"id": ident})


async def test_tools_and_what_came_of_them_are_in_the_request() -> None:
    messages = (ChatMessage("assistant", "", (USE,)), ChatMessage("tool", "rain", call_id="c1"))
    async with peer(says(*REPLY)) as host, engine(host.url) as llm:
        assert llm.calls_tools
        for choice in ("required", "weather"):
            await replies(llm, replace(PROMPT, messages=messages, tools=(TOOL,), tool_choice=choice))
    first, second = host.requests
    function = {"name": "weather", "description": "Tells it.", "parameters": {"type": "object"}}
    assert first["tools"] == [{"type": "function", "function": function}]
    assert first["tool_choice"] == "required"
    assert second["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    called = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Oslo"}'}}
    assert first["messages"] == [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "content": "rain", "tool_call_id": "c1"},
    ]


async def test_calls_come_in_pieces_and_are_told_whole_at_the_end() -> None:
    """Two at once, each piece of arguments for the one that it names."""
    stream = (
        event("One moment."),
        calls(piece(0, "c1", name="weather", arguments="")),
        calls(piece(0, arguments='{"place": ')),
        calls(piece(1, "c2", name="clock", arguments="{}"), piece(0, arguments='"Oslo"}')),
        event(finish="tool_calls"),
    )
    async with peer(says(*stream)) as host, engine(host.url) as llm:
        steps = await replies(llm, replace(PROMPT, tools=(TOOL,)))
    assert text(steps) == "One moment." and steps[-1].finish == "stop"
    assert steps[-1].calls == (USE, ToolUse("c2", "clock", "{}"))
    assert not any(step.calls for step in steps[:-1])


async def test_calls_that_were_cut_at_the_limit_are_none() -> None:
    stream = (calls(piece(0, "c1", name="weather", arguments='{"pl')), event(finish="length"))
    async with peer(says(*stream)) as host, engine(host.url) as llm:
        assert (await replies(llm))[-1].calls == ()


async def test_what_has_another_form_is_read_over() -> None:
    stream = (
        event(tool_calls="no"),
        event(tool_calls=[3, {"index": "x", "function": {}}, {"function": 3}, {"index": 0}]),
        calls(piece(0, name="weather", arguments="{}")),
        event(finish="stop"),
    )
    async with peer(says(*stream)) as host, engine(host.url) as llm:
        assert (await replies(llm))[-1].calls == (ToolUse("call_0", "weather", "{}"),)


@pytest.mark.parametrize(
    "flood",
    [
        [calls(piece(0, "c1", name="weather", arguments="x" * 70_000))],
        [calls(piece(n, f"c{n}", name="weather")) for n in range(40)],
    ],
    ids=["characters", "calls"],
)
async def test_too_many_calls_end_the_reply(flood: list[bytes]) -> None:
    async with peer(says(*flood, event(finish="stop"))) as host, engine(host.url) as llm:
        with pytest.raises(EngineUnavailable, match="too much"):
            await replies(llm)
