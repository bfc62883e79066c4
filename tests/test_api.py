"""The API over a real socket, asked by OpenAI's own client; engines are scripted."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from voicepipe.app import Serving, serving
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.base import ChatMessage, TextRequest
from voicepipe.engines.scripted import ScriptedTexts
from voicepipe.engines.table import Models, load
from voicepipe.errors import (
    BadField,
    EngineError,
    EngineTimeout,
    EngineUnavailable,
    PromptTooLong,
    Refused,
    TooLarge,
    UnknownModel,
    VoicepipeError,
)
from voicepipe.wire import chat

httpx = pytest.importorskip("httpx")
openai = pytest.importorskip("openai")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from voicepipe.api import ApiSettings, _Completion, error_response  # noqa: E402 - they need the extra
from voicepipe.listener import ApiListener  # noqa: E402

SCRIPT = ScriptedConfig(reply="one two three four", llm_prefill_ms=1, llm_token_ms=1)
HELLO: Any = [{"role": "user", "content": "Say something, please."}]


@pytest.fixture
def models(whisper_dir: Path, smollm2_path: Path, piper_voice_path: Path) -> Models:
    return Models(whisper_dir, smollm2_path, piper_voice_path)


class Bench:
    def __init__(self, served: Serving, port: int, client: Any) -> None:
        self.served, self.port, self.client = served, port, client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def count(self, name: str, **labels: str) -> float:
        return self.served.server._metrics.registry.get_sample_value(name, labels) or 0.0

    async def comes_true(self, condition: Callable[[], bool]) -> None:
        """Within the time that a chunk takes, and a socket's close."""
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - what happens at the other end of a socket
                await asyncio.sleep(0.005)


@asynccontextmanager
async def bench(
    script: ScriptedConfig = SCRIPT,
    *,
    slots: int = 2,
    waiting: int = 1,
    tokens: frozenset[str] = frozenset(),
    connections: int = 50,
) -> AsyncIterator[Bench]:
    config = Config(
        port=0,
        api_port=0,
        engines=EnginesConfig(kind="scripted", scripted=script, text_slots=slots),
        limits=LimitsConfig(
            max_waiting_texts=waiting, max_text_tokens=5000, grace_s=0.5, max_connections=connections
        ),
    )
    listener = ApiListener("127.0.0.1", 0, ApiSettings(5000, 1.0, connections))
    async with (
        serving(
            config, lambda: load(config.engines, None, sessions=1, api_key=None), tokens=tokens, api=listener
        ) as served,
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{listener.port}/v1", api_key="key", max_retries=0) as client,
    ):
        one = Bench(served, listener.port, client)
        yield one
        await one.comes_true(lambda: one.count("voicepipe_leases", kind="text") == 0)


async def test_a_whole_answer() -> None:
    async with bench() as one:
        answer = await one.client.chat.completions.create(model="scripted", messages=HELLO, max_tokens=5)
        assert answer.choices[0].message.content == "one two three four one"
        assert answer.choices[0].finish_reason == "length"
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 5)
        assert one.count("voicepipe_texts_total", outcome="length") == 1
        assert one.count("voicepipe_text_tokens_total", kind="decode") >= 5


async def test_an_answer_in_pieces() -> None:
    """Role first, then text as it is made, then why it ended, then usage if that was asked for."""
    async with bench() as one:
        stream = await one.client.chat.completions.create(
            model="scripted",
            messages=HELLO,
            max_completion_tokens=40,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert "".join(text or "" for text in texts).split() == SCRIPT.reply.split() * 10
        assert len(chunks) > 5
        assert chunks[-2].choices[0].finish_reason == "length"
        assert chunks[-1].usage.total_tokens == 43


async def test_a_stop_sequence_ends_the_answer() -> None:
    async with bench() as one:
        answer = await one.client.chat.completions.create(model="scripted", messages=HELLO, stop=["three"])
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("one two ", "stop")


async def test_the_model_is_listed_and_no_other_is_known() -> None:
    async with bench() as one:
        assert [model.id async for model in one.client.models.list()] == ["scripted"]
        assert (await one.client.models.retrieve("scripted")).owned_by == "voicepipe"
        for ask in (
            one.client.models.retrieve("gpt-5"),
            one.client.chat.completions.create(model="gpt-5", messages=HELLO),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                await ask
            assert caught.value.param == "model"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"temperature": 5}, "temperature"),
        ({"n": 3}, "n"),
        ({"max_tokens": 5001}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "a" * 20_000}]}, "messages"),
        ({"messages": [{"role": "user", "content": "a b " * 3_000}]}, "messages"),
    ],
)
async def test_a_bad_request_names_its_field(more: dict[str, Any], param: str) -> None:
    async with bench() as one:
        with pytest.raises(openai.BadRequestError) as caught:
            await one.client.chat.completions.create(**({"model": "scripted", "messages": HELLO} | more))
        assert caught.value.param == param
        assert caught.value.type == "invalid_request_error"


async def test_overload_is_429_with_the_time_to_come_back() -> None:
    """At once, and those that were let in are answered."""
    async with bench(slots=1, waiting=1) as one, asyncio.TaskGroup() as group:
        create = one.client.chat.completions.create
        let_in = [group.create_task(create(model="scripted", messages=HELLO, max_tokens=300)) for _ in range(2)]
        await one.comes_true(lambda: one.count("voicepipe_texts_waiting") == 1)
        with pytest.raises(openai.RateLimitError) as caught:
            await create(model="scripted", messages=HELLO)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert caught.value.code == "capacity"
        answers = [await task for task in let_in]
        assert {answer.usage.completion_tokens for answer in answers} == {300}
        assert one.count("voicepipe_texts_total", outcome="refused") == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_frees_its_slot(stream: bool) -> None:
    """At the next chunk, also where nothing has been sent yet."""
    async with bench() as one:
        body = {"model": "scripted", "messages": HELLO, "max_tokens": 5000, "stream": stream}
        async with httpx.AsyncClient() as client, asyncio.TaskGroup() as group:
            asked = group.create_task(_begin(client, f"{one.url}/chat/completions", body))
            await one.comes_true(lambda: one.count("voicepipe_leases", kind="text") == 1)
            asked.cancel()
        await one.comes_true(lambda: one.count("voicepipe_leases", kind="text") == 0)
        assert one.count("voicepipe_texts_total", outcome="cancelled") == 1


async def _begin(client: Any, url: str, body: dict[str, Any]) -> None:
    async with client.stream("POST", url, json=body) as response:
        async for _ in response.aiter_bytes():
            pass


async def test_a_token_is_needed_where_the_voice_door_needs_one() -> None:
    async with bench(tokens=frozenset({"secret"})) as one:
        with pytest.raises(openai.AuthenticationError):
            await one.client.models.list()
        async with openai.AsyncOpenAI(base_url=one.url, api_key="secret", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["scripted"]


async def test_refusals_of_texts_are_logged_and_counted_and_never_a_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those of the door, and those for want of room."""
    caplog.set_level(logging.WARNING, logger="voicepipe")
    tokens = frozenset({"secret"})
    async with bench(tokens=tokens) as one, httpx.AsyncClient(base_url=one.url) as client:
        assert (await client.get("/models", headers={"Authorization": "Bearer guess"})).status_code == 401
        assert one.count("voicepipe_refusals_total", reason="unauthorized") == 1
        assert one.served.texts is not None
        one.served.texts._draining = True
        answer = await client.post(
            "/chat/completions",
            headers={"Authorization": "Bearer secret"},
            json={"model": "scripted", "messages": HELLO},
        )
        assert answer.status_code == 503
    lines = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert lines == [f"text refused, {reason}: peer 127.0.0.1" for reason in ("unauthorized", "draining")]
    assert "secret" not in caplog.text and "guess" not in caplog.text


@pytest.mark.parametrize("path", ["/models", "/chat/completions"])
async def test_beyond_the_connections_there_may_be_one_is_told_when_to_come_back(path: str) -> None:
    """As JSON, counted, and let go of, so that its place is free for the next one; at the limit all are served."""
    async with bench(connections=2) as one, httpx.AsyncClient(base_url=one.url) as client:
        idle = [await asyncio.open_connection("127.0.0.1", one.port) for _ in range(2)]
        method = "GET" if path == "/models" else "POST"
        answer = await client.request(method, path, json={"model": "scripted", "messages": HELLO})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1 and answer.headers["connection"] == "close"
        assert answer.json()["error"] == {
            "message": "refused: connections",
            "type": "rate_limit_error",
            "param": None,
            "code": "connections",
        }
        assert one.count("voicepipe_refusals_total", reason="connections") == 1
        idle.pop()[1].close()
        async with asyncio.timeout(5):
            while (await client.get("/models")).status_code == 503:
                pass
        idle.pop()[1].close()


async def test_connections_without_a_request_are_bounded_too() -> None:
    """At twice as many, and counted with the others."""
    async with bench(connections=1) as one:
        idle = [await asyncio.open_connection("127.0.0.1", one.port) for _ in range(3)]
        assert b'"connections"' in await idle[-1][0].read()
        assert one.count("voicepipe_refusals_total", reason="connections") == 1
        for _, writer in idle:
            writer.close()


async def test_a_page_of_another_origin_is_turned_away() -> None:
    """Nobody's browser is used to have texts made here."""
    async with bench() as one, httpx.AsyncClient(base_url=one.url) as client:
        answer = await client.get("/models", headers={"Origin": "https://elsewhere.example"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/chat/completions", b"{", 400),
        ("POST", "/chat/completions", b"[]", 400),
        ("POST", "/chat/completions", b" " * 300_000, 413),
        ("GET", "/chat/completions", None, 405),
        ("GET", "/nothing", None, 404),
    ],
)
async def test_every_error_has_openais_form(method: str, path: str, content: bytes | None, status: int) -> None:
    async with bench() as one, httpx.AsyncClient(base_url=one.url) as client:
        answer = await client.request(method, path, content=content)
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_an_engine_that_fails_is_a_500(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first piece; after it, the stream says so."""
    made = 0

    async def step(self: ScriptedTexts, texts: Any, units: int) -> Any:
        nonlocal made
        made += texts[0].phase == "decode"
        if made > 1:
            raise EngineError("out of memory")
        return await original(self, texts, units)

    async with bench() as one:
        original: Any = ScriptedTexts.step
        monkeypatch.setattr(ScriptedTexts, "step", step)
        stream = await one.client.chat.completions.create(model="scripted", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="out of memory"):
            async for _ in stream:
                pass
        with pytest.raises(openai.InternalServerError, match="out of memory"):
            await one.client.chat.completions.create(model="scripted", messages=HELLO, stream=True)


async def test_a_drain_answers_what_runs_and_turns_the_next_away() -> None:
    """503 with the time to come back, as at the voice door."""
    async with bench(ScriptedConfig(reply="a b", llm_token_ms=2)) as one, asyncio.TaskGroup() as group:
        create = one.client.chat.completions.create
        running = group.create_task(create(model="scripted", messages=HELLO, max_tokens=60))
        await one.comes_true(lambda: one.count("voicepipe_leases", kind="text") == 1)
        stopping = group.create_task(one.served.stop(5.0))
        await asyncio.sleep(0)
        with pytest.raises(openai.InternalServerError) as caught:
            await create(model="scripted", messages=HELLO)
        assert caught.value.status_code == 503 and caught.value.response.headers["retry-after"]
        assert (await running).usage.completion_tokens == 60
        await stopping


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("capacity", 1500), 429),
        (Refused("draining", 5000), 503),
        (UnknownModel("x"), 404),
        (TooLarge("x"), 413),
        (BadField("x", field="y"), 400),
        (PromptTooLong("x"), 400),
        (EngineUnavailable("x"), 503),
        (EngineTimeout("x"), 500),
    ],
)
def test_statuses(error: VoicepipeError, status: int) -> None:
    """Seconds to come back are rounded up."""
    response = error_response(error)
    assert response.status_code == status
    assert response.headers.get("retry-after") == {429: "2"}.get(status, "5" if "draining" in str(error) else None)


@pytest.mark.models
async def test_the_real_model_answers(models: Models) -> None:
    """Greedy; drawn from all tokens, and from so few that it is as good as greedy; two at once."""
    config = Config(port=0, api_port=0, engines=EnginesConfig(text_slots=2))
    listener = ApiListener("127.0.0.1", 0, ApiSettings(64, instructions=config.instructions))
    async with (
        serving(config, lambda: load(config.engines, models, sessions=1, api_key=None), api=listener) as served,
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{listener.port}/v1", api_key="k", max_retries=0) as client,
    ):
        assert served.texts is not None
        name = served.texts.model
        question: Any = [
            {"role": "system", "content": "You are a voice assistant. Answer in one short sentence."},
            {"role": "user", "content": "What is the capital of France?"},
        ]
        create = client.chat.completions.create
        greedy = await create(model=name, messages=question, temperature=0, max_tokens=12)
        assert "Paris" in greedy.choices[0].message.content
        assert greedy.usage.prompt_tokens > 7 and 1 <= greedy.usage.completion_tokens <= 12
        drawn = [
            (await create(model=name, messages=question, seed=7, top_p=most, max_tokens=12))
            .choices[0]
            .message.content
            for most in (1.0, 0.01)
        ]
        assert drawn[0] and "Paris" in drawn[1]
        plain = await create(model=name, messages=question[1:], seed=7, max_tokens=20)
        assert "Paris" in plain.choices[0].message.content, "as somebody asks who sets nothing"
        assert plain.usage.prompt_tokens > 12, "the server's instructions are its system message"
        both = await asyncio.gather(
            create(model=name, messages=question, temperature=0, max_tokens=12),
            create(model=name, messages=[{"role": "user", "content": "Say hello."}], max_tokens=12),
        )
        assert "Paris" in both[0].choices[0].message.content
        assert both[1].choices[0].message.content


async def test_a_client_that_takes_nothing_is_let_go() -> None:
    """Its slot is free after the time that a client has for a piece."""
    async with bench() as one:
        request = _Completion(
            one.served.texts,  # type: ignore[arg-type]
            chat.Head("x", 1, "scripted"),
            chat.parse(json.dumps({"model": "scripted", "messages": HELLO, "stream": True}).encode()),
            TextRequest((ChatMessage("user", "Hello."),), 5000),
            0.05,
        )

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            await asyncio.Event().wait()

        await request({"type": "http"}, receive, send)
        assert one.count("voicepipe_texts_total", outcome="cancelled") == 1
