"""The browser client in a real Chromium, against the real server with scripted engines.

Chromium's fake microphone plays a WAV file, in real time. Every test that can holds the page to a clean console
and to requests of its own origin.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from prometheus_client import CollectorRegistry

from tests.clients.devtools import CHROMIUM, Tab, chromium
from voicepipe.app import Serving, serving
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.connection import Connection
from voicepipe.core.admission import CountAdmission, Grant
from voicepipe.engines.scripted import SECONDS_PER_WORD
from voicepipe.engines.table import load
from voicepipe.errors import SessionLimit
from voicepipe.metrics import Metrics
from voicepipe.pages import Readiness
from voicepipe.resources import browser_dir
from voicepipe.server import Handler, ServerSettings, VoiceServer
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_server
from voicepipe_client import connect as talk_to

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")

WAV_HZ = 48_000
FAKE_MICROPHONE = "--use-fake-device-for-media-stream"


@asynccontextmanager
async def server(
    *, tokens: frozenset[str] = frozenset(), origins: tuple[str, ...] = (), **scripted: Any
) -> AsyncIterator[Serving]:
    """With room for one session; `scripted` goes into ScriptedConfig."""
    config = Config(
        port=0,
        origins=origins,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(**{"reply": REPLY, **scripted})),
        limits=LimitsConfig(max_sessions=1, grace_s=1.0),
    )
    loader = lambda: load(config.engines, None, sessions=1, api_key=None)  # noqa: E731
    async with serving(config, loader, tokens=tokens, web_files=browser_dir()) as served:
        yield served


def microphone(path: Path, *spans: tuple[float, float]) -> tuple[str, ...]:
    """Flags for a microphone that hears (seconds of silence, seconds of speech) once, then silence."""
    generator = np.random.default_rng(7)
    pieces = []
    for silent_s, loud_s in spans:
        time_s = np.arange(round(loud_s * WAV_HZ)) / WAV_HZ
        syllables = 0.5 * (1 - np.cos(2 * np.pi * 5 * time_s))  # noise suppression lets what swells pass
        noise = generator.standard_normal(len(time_s))
        tone = np.sin(2 * np.pi * 220 * time_s) + np.sin(2 * np.pi * 660 * time_s)
        pieces += [np.zeros(round(silent_s * WAV_HZ)), (0.1 + syllables) * (0.3 * tone + 0.05 * noise)]
    pieces.append(np.zeros(WAV_HZ))
    soundfile.write(path, np.clip(np.concatenate(pieces), -1, 1), WAV_HZ, subtype="PCM_16")
    return (
        FAKE_MICROPHONE,
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={path}%noloop",
    )


def url_of(served: Serving) -> str:
    return f"http://127.0.0.1:{served.server.port}/"


@asynccontextmanager
async def telling(handler: Handler) -> AsyncIterator[VoiceServer]:
    """The server's door with `handler` in place of sessions: for what sessions seldom say."""
    built = VoiceServer(
        ServerSettings(port=0, grace_s=0.0, web_files=browser_dir()),
        handler,
        admission=CountAdmission(1),
        metrics=Metrics(CollectorRegistry()),
        ready=lambda: Readiness(True),
    )
    async with built:
        yield built


@contextmanager
def clean(tab: Tab, url: str) -> Iterator[None]:
    """Nothing on the console, and not one request to anywhere else."""
    yield
    assert tab.complaints == []
    elsewhere = [r for r in tab.requests if not r.replace("ws://", "http://").startswith((url, "data:"))]
    assert elsewhere == []


# --- the tests ------------------------------------------------------------------------------------

REPLY = "It is Paris. On the Seine."
REPLY_S = 6 * SECONDS_PER_WORD
STAGES = ("endpoint", "asr", "llm", "tts", "send")
NOTICED = "!document.querySelector('#notice').hidden"
LIVE = "document.body.dataset.state === 'live'"


def ended(turns: int) -> str:
    return f"document.querySelectorAll('.turn[data-verdict]').length >= {turns}"


async def test_a_spoken_question_is_answered_out_loud(tmp_path: Path) -> None:
    flags = microphone(tmp_path / "question.wav", (1.0, 1.5))
    async with server() as served, chromium(tmp_path, *flags) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            await tab.click("#talk")
            await tab.until("document.querySelector('.tentative')?.textContent")
            await tab.until(ended(1))
            assert await tab.text(".stable") == "What is the capital of France?"
            assert await tab.text(".tentative") == ""
            assert await tab.text(".reply") == REPLY
            spoken = await tab.value("document.querySelector('#announcer').innerText")
            assert spoken.startswith("You: What is the capital of France?\n")
            seen = await tab.value("window.voicepipe")
            assert seen["peak"] == pytest.approx(0.2, abs=0.02)  # the scripted voice, out of the worklet
            assert seen["played"] == pytest.approx(REPLY_S * seen["rate_hz"], abs=2)
            assert seen["reports"] >= 10 * REPLY_S - 2  # every 100 ms, rounded up to a render quantum
            await tab.click("#talk")
            assert await tab.text("#talk") == "Start"


async def test_a_turn_shows_its_verdict_and_its_stages_against_the_budget(tmp_path: Path) -> None:
    flags = microphone(tmp_path / "question.wav", (1.0, 1.5))
    async with server(llm_prefill_ms=2500.0) as served, chromium(tmp_path, *flags) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            await tab.click("#talk")
            await tab.until(ended(1))
            assert await tab.text(".verdict") == "missed"
            felt = re.fullmatch(r"about (\d+) ms of 200 ms", await tab.text(".felt"))
            assert felt is not None and int(felt[1]) > 200
            legend = await tab.value("[...document.querySelectorAll('.stages li')].map(li => li.textContent)")
            total = sum(int(entry.split()[1]) for entry in legend if entry.split()[0] in STAGES)
            assert total == pytest.approx(int(felt[1]), abs=3)  # each is rounded
            assert any(entry.startswith("blamed on llm (service)") for entry in legend)
            box = "[...document.querySelectorAll('.bar, .bar *')].map((e) => e.getBoundingClientRect()).map"
            bar, *drawn, mark = await tab.value(f"{box}((box) => [box.left, box.width])")
            length = sum(width for _, width in drawn)
            assert length == pytest.approx(bar[1] / 1.02, rel=0.01)  # longer than the budget, it fills the bar
            assert mark[0] - bar[0] == pytest.approx(length * 200 / int(felt[1]), rel=0.02)


async def test_speech_interrupts_the_reply_and_what_was_queued_of_it_is_dropped(tmp_path: Path) -> None:
    flags = microphone(tmp_path / "two.wav", (1.0, 1.5), (1.8, 1.2))
    async with server(reply=f"{REPLY} {REPLY}") as served, chromium(tmp_path, *flags) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            await tab.click("#talk")
            await tab.until("document.querySelector('.turn.cut')")
            await tab.until("window.voicepipe.dropped > 0")
            cut = await tab.value("window.voicepipe")
            whole = 2 * REPLY_S * cut["rate_hz"]
            assert 0 < cut["played"] < whole - cut["dropped"]
            await tab.until(ended(2))
            seen = await tab.value("window.voicepipe")
            assert seen["played"] == pytest.approx(cut["played"] + whole, abs=2)
            assert await tab.value("document.querySelectorAll('.cut').length") == 1


async def test_a_turn_that_is_reopened_takes_its_reply_back(tmp_path: Path) -> None:
    flags = microphone(tmp_path / "two.wav", (1.0, 1.5), (0.5, 1.2))
    async with server() as served, chromium(tmp_path, *flags) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            await tab.click("#talk")
            await tab.until("window.voicepipe.dropped > 0")
            await tab.until(ended(1))
            assert await tab.value("document.querySelectorAll('.turn').length") == 1
            assert await tab.text(".reply") == REPLY


async def test_what_is_typed_is_answered_without_a_microphone_and_is_never_markup(tmp_path: Path) -> None:
    typed = "<img src=x onerror=alert(1)> & <b>why</b>?"
    async with server() as served, chromium(tmp_path) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            await tab.type("#text", typed)
            await tab.until(ended(1))
            assert await tab.text(".stable") == typed
            assert await tab.text(".reply") == REPLY
            assert await tab.value("document.querySelector('main').querySelector('img, .user b')") is None
            seen = await tab.value("window.voicepipe")
            assert (seen["sent_frames"], seen["peak"] > 0.1) == (0, True)
            await tab.type("#text", "Again")
            await tab.until(ended(2))


async def test_a_refusal_says_when_to_come_back_and_trying_again_works(tmp_path: Path) -> None:
    flags = microphone(tmp_path / "silence.wav", (1.0, 0.0))
    async with server() as served, chromium(tmp_path, *flags) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            async with talk_to(f"ws://127.0.0.1:{served.server.port}", rate=16_000):
                await tab.click("#talk")
                await tab.until(NOTICED)
                notice = await tab.text("#notice p")
                assert re.fullmatch(r"Every place on this server is taken. Try again in \d+ s.", notice)
                assert await tab.text("#talk") == "Start"
            await tab.click("#retry")
            await tab.until(LIVE)
            assert not await tab.value(NOTICED)


async def test_the_token_that_is_typed_opens_the_door(tmp_path: Path) -> None:
    async with server(tokens=frozenset({"s3cret"})) as served, chromium(tmp_path) as tab:
        await tab.go(url_of(served))
        await tab.type("#text", "Hello")
        await tab.until(NOTICED)
        assert "it may want a token" in await tab.text("#notice")
        await tab.value("document.querySelector('#token').value = 'two words'")
        await tab.click("#retry")
        await tab.until("document.querySelector('#notice').textContent.includes('characters')")
        await tab.value("document.querySelector('#token').value = 's3cret'")
        await tab.click("#retry")
        await tab.until(ended(1))
        assert await tab.text(".stable") == "Hello"  # the words of the first try


async def test_a_server_that_goes_away_is_told_apart_from_one_that_is_not_there(tmp_path: Path) -> None:
    flags = microphone(tmp_path / "silence.wav", (1.0, 0.0))
    async with server() as served, chromium(tmp_path, *flags) as tab:
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until(LIVE)
        await served.server.stop(0.0)
        await tab.until(NOTICED)
        assert "has shut down" in await tab.text("#notice")
        await tab.click("#retry")
        await tab.until("document.querySelector('#notice').textContent.includes('does not answer')")


async def test_a_page_that_may_not_use_the_microphone_says_so(tmp_path: Path) -> None:
    flags = (FAKE_MICROPHONE, "--use-fake-ui-for-media-stream=deny")
    async with server() as served, chromium(tmp_path, *flags) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            await tab.click("#talk")
            await tab.until(NOTICED)
            assert "may not use the microphone" in await tab.text("#notice")


async def test_a_machine_without_a_microphone_is_told_so(tmp_path: Path) -> None:
    kinds = "navigator.mediaDevices.enumerateDevices().then((all) => all.map((device) => device.kind))"
    async with server() as served, chromium(tmp_path, "--use-fake-ui-for-media-stream") as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            if "audioinput" in await tab.value(kinds):
                pytest.skip("this machine has a microphone")
            await tab.click("#talk")
            await tab.until(NOTICED)
            assert "No microphone was found" in await tab.text("#notice")


async def test_an_insecure_page_says_so_and_can_still_be_typed_into(tmp_path: Path) -> None:
    """Plain http from another name: no microphone and no worklets; replies are read, not heard."""
    url = "http://voicepipe.test"
    async with server(origins=(url,)) as served:
        flag = f"--host-resolver-rules=MAP voicepipe.test:80 127.0.0.1:{served.server.port}"
        async with chromium(tmp_path, flag) as tab:
            with clean(tab, url):
                await tab.go(url)
                await tab.click("#talk")
                await tab.until(NOTICED)
                assert "only to pages on https or on localhost" in await tab.text("#notice")
                await tab.type("#text", "Hello")
                await tab.until(ended(1))
                assert await tab.text(".reply") == REPLY


async def test_a_drain_and_a_session_that_is_ended_are_told(tmp_path: Path) -> None:
    ready = wire.SessionReady("s1", wire.PROTOCOL, 48_000, budget_ms=200.0, achievable_ms=None)
    error = wire.Error(code="session_limit", message="the session was idle")

    async def handler(connection: Connection, grant: Grant) -> None:
        assert '"session.start"' in str(await connection.recv())
        for message in (wire.Waiting(position=2), ready, wire.Draining(deadline_ms=2500.0)):
            await connection.send(encode_server(message))
        assert '"input.text"' in str(await connection.recv())
        await connection.send(encode_server(error))
        raise SessionLimit(error.message)

    async with telling(handler) as built, chromium(tmp_path) as tab:
        url = f"http://127.0.0.1:{built.port}/"
        with clean(tab, url):
            await tab.go(url)
            seen = "new MutationObserver(() => seen.push(document.body.innerText)).observe(document.body, what)"
            await tab.value(f"{{ const what = {{subtree: true, childList: true}}; globalThis.seen = []; {seen} }}")
            await tab.type("#text", "Hello")
            await tab.until("document.body.dataset.state === 'idle'")
            told = "\n".join(await tab.value("seen"))
            assert "Waiting for a place: number 2" in told
            assert "shuts down in 3 s" in told
            assert "the session was idle" in await tab.text("#notice")
            assert not await tab.value("document.querySelector('#retry').hidden")
