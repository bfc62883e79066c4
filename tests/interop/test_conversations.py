"""Whole conversations with clients of the Realtime protocol: two spoken turns, a function call, an interruption."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.environments import node_folder, python_with
from tests.realtime_server import CALL, QUESTIONS, REPLY, TOKEN, server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1000)]
HERE = Path(__file__).parent
HELD_S = 60.0
"""How long a conversation may take."""
REPLY_MS = 300 * len(REPLY.split())


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Of a server that asks for a function once a turn."""
    async with server(transcripts=QUESTIONS, reply=REPLY, calls=(CALL,)) as served:
        yield served.server.port


async def hold(*command: str) -> dict[str, Any]:
    """What the client saw: the last line that it prints."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "VOICEPIPE_TOKEN": TOKEN},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(HELD_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-3000:]
    saw: dict[str, Any] = json.loads(out.splitlines()[-1])
    return saw


@pytest.fixture(scope="session")
def agents_js() -> Path:
    return node_folder("agents") / "conversation.mjs"


@pytest.fixture(scope="session")
def livekit() -> Path:
    return python_with("livekit.txt")


@pytest.fixture(scope="session")
def pipecat() -> Path:
    return python_with("pipecat.txt")


def test_the_page_names_the_versions_that_are_tested() -> None:
    page = (HERE.parents[1] / "docs/openai-realtime.md").read_text(encoding="utf-8")
    package = json.loads((HERE / "agents/package.json").read_text(encoding="utf-8"))
    listed = (HERE / "livekit.txt").read_text() + (HERE / "pipecat.txt").read_text()
    pinned = dict(line.split("==") for line in listed.splitlines())
    assert f"| {package['dependencies']['@openai/agents']} |" in page
    assert f"`livekit-plugins-openai` | {pinned['livekit-plugins-openai']} |" in page
    assert f"`pipecat-ai[openai]` | {pinned['pipecat-ai']} |" in page


async def test_openai_agents_js(agents_js: Path, port: int) -> None:
    """Its WebSocket transport, in Node."""
    saw = await hold("node", str(agents_js), f"ws://127.0.0.1:{port}/v1/realtime")
    assert not saw["errors"]
    assert saw["called"] == ["Oslo", "Oslo"] and saw["interruptions"] == 1
    assert REPLY_MS + 1200 <= saw["audio_ms"] < 2 * REPLY_MS and saw["late_audio_ms"] == 0
    messages = [item for item in saw["history"] if item["type"] == "message"]
    assert [item["content"][0]["transcript"] for item in messages] == [QUESTIONS[0], REPLY, QUESTIONS[1], REPLY]
    assert [item["status"] for item in messages] == ["completed", "incomplete", "completed", "completed"]
    calls = [item for item in saw["history"] if item["type"] == "function_call"]
    assert [(item["status"], item["output"]) for item in calls] == [("completed", "rain")] * 2


async def test_livekit_agents(livekit: Path, port: int) -> None:
    """Its OpenAI plugin, in an AgentSession. It keeps a mirror of the conversation, which has to be the same."""
    saw = await hold(str(livekit), str(HERE / "livekit_conversation.py"), f"http://127.0.0.1:{port}/v1")
    assert not saw["errors"]
    assert saw["called"] == ["Oslo", "Oslo"]
    assert REPLY_MS + 1200 <= saw["audio_ms"] < 2 * REPLY_MS
    assert [(item["role"], item["text"]) for item in saw["history"]] == [
        ("user", QUESTIONS[0]),
        ("assistant", REPLY),
        ("user", QUESTIONS[1]),
        ("assistant", REPLY),
    ]
    assert [item["interrupted"] for item in saw["history"]] == [False, True, False, False]
    assert [text for text in saw["mirror"] if text in QUESTIONS] == list(QUESTIONS)


async def test_pipecat(pipecat: Path, port: int) -> None:
    """Its OpenAI Realtime service, in a pipeline. It asks for a greeting before the user has said anything, and
    that is what is interrupted here."""
    saw = await hold(str(pipecat), str(HERE / "pipecat_conversation.py"), f"ws://127.0.0.1:{port}/v1/realtime")
    assert not saw["errors"]
    assert saw["called"] == ["Oslo"] * 3 and saw["interruptions"] >= 1
    assert 2 * REPLY_MS + 1200 <= saw["audio_ms"] < 3 * REPLY_MS
    assert saw["said"] == ["Say hello.", *QUESTIONS]
    assert saw["answered"] == [REPLY] * 3
