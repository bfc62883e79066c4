"""The browser client in a real Chromium, against the real server with scripted engines.

Chromium's fake microphone plays a WAV file; the page is driven and watched over the DevTools protocol. What
is waited for is waited for in the page; the time limits are only there so that a failure ends, and says where.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.asyncio.client import ClientConnection, connect

from voicepipe.app import Serving, serving
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.scripted import SECONDS_PER_WORD
from voicepipe.engines.table import load
from voicepipe.resources import browser_dir
from voicepipe_client import connect as talk_to

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on this machine")

WAV_HZ = 48_000
PATIENCE_S = 40.0
"""For a thing to happen in the page: a bound for failures."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it sees this repository's page only, and containers run tests as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--remote-debugging-port=0",
)
FAKE_MICROPHONE = "--use-fake-device-for-media-stream"


# --- what drives it -------------------------------------------------------------------------------


class Tab:
    """One page: calls into it, and everything that it complained about or asked the network for."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []

    async def read(self) -> None:
        async for text in self._socket:
            message = json.loads(text)
            if "id" in message:
                self._answers.pop(message["id"]).set_result(message)
            else:
                self._note(message["method"], message["params"])

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(params["url"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        ident = next(self._ids)
        answer = self._answers[ident] = asyncio.get_running_loop().create_future()
        message = {"id": ident, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._socket.send(json.dumps(message))
        reply = await answer
        assert "error" not in reply, f"{method}: {reply}"
        result: dict[str, Any] = reply["result"]
        return result

    async def attach(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")

    async def go(self, url: str) -> None:
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && 'voicepipe' in window")

    async def value(self, expression: str) -> Any:
        result = await self.call(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, condition: str) -> None:
        look = f"() => {{ if ({condition}) {{ clearInterval(t); done(); }} }}"
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.value(f"new Promise((done) => {{ const t = setInterval({look}, 10); }})")
        except TimeoutError:
            seen = await self.value("document.body.innerText + JSON.stringify(window.voicepipe)")
            pytest.fail(f"never so: {condition}\n{seen}\n{self.complaints}")

    async def text(self, selector: str) -> str:
        found = await self.value(f"document.querySelector({selector!r}).textContent")
        assert isinstance(found, str)
        return found

    async def click(self, selector: str) -> None:
        await self.value(f"document.querySelector({selector!r}).click()")

    async def type(self, selector: str, text: str) -> None:
        """As on a keyboard, and Enter."""
        await self.value(f"document.querySelector({selector!r}).focus()")
        await self.call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key="Enter",
                code="Enter",
                windowsVirtualKeyCode=13,
                text="\r" if kind == "keyDown" else "",
            )


@asynccontextmanager
async def chromium(folder: Path, *flags: str) -> AsyncIterator[Tab]:
    """A fresh browser with one tab. `--use-fake-ui-for-media-stream` grants the microphone."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *FLAGS,
        *flags,
        f"--user-data-dir={folder / 'profile'}",
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            url = await _devtools_url(process.stderr)
        async with connect(url, max_size=None, proxy=None, compression=None) as socket:
            tab = Tab(socket)
            helpers = [asyncio.create_task(tab.read()), asyncio.create_task(_drain(process.stderr))]
            try:
                await tab.attach()
                yield tab
            finally:
                for task in helpers:
                    task.cancel()
                await asyncio.wait(helpers)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _devtools_url(stderr: asyncio.StreamReader) -> str:
    said = []
    while line := (await stderr.readline()).decode(errors="replace"):
        said.append(line)
        if found := re.match(r"DevTools listening on (ws://\S+)", line):
            return found[1]
    pytest.fail(f"Chromium did not start: {''.join(said)}")


async def _drain(stderr: asyncio.StreamReader) -> None:
    while await stderr.read(65_536):
        pass


@asynccontextmanager
async def server(
    *, tokens: frozenset[str] = frozenset(), origins: tuple[str, ...] = (), **scripted: Any
) -> AsyncIterator[Serving]:
    config = Config(
        port=0,
        origins=origins,
        engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(**scripted)),
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


@contextmanager
def clean(tab: Tab, url: str) -> Iterator[None]:
    """Nothing on the console, and not one request to anywhere else."""
    yield
    assert tab.complaints == []
    elsewhere = [r for r in tab.requests if not r.replace("ws://", "http://").startswith((url, "data:"))]
    assert elsewhere == []


# --- the tests ------------------------------------------------------------------------------------

REPLY = "This is a scripted reply. It has two sentences."
STAGES = ("endpoint", "asr", "llm", "tts", "send")
REPLY_S = 9 * SECONDS_PER_WORD
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
    async with server(llm_token_ms=400.0) as served, chromium(tmp_path, *flags) as tab:
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
            bar, drawn, mark = await tab.value(
                "(() => { const bar = document.querySelector('.bar'), width = (e) => e.getBoundingClientRect().width;"
                "return [width(bar), [...bar.querySelectorAll('span')].reduce((sum, e) => sum + width(e), 0),"
                "bar.querySelector('i').offsetLeft] })()"
            )
            assert drawn == pytest.approx(bar / 1.02, rel=0.01)  # longer than the budget, it fills the bar
            assert mark == pytest.approx(drawn * 200 / int(felt[1]), rel=0.02)


async def test_speech_interrupts_the_reply_and_what_was_queued_of_it_is_dropped(tmp_path: Path) -> None:
    flags = microphone(tmp_path / "two.wav", (1.0, 1.5), (1.8, 1.2))
    async with server() as served, chromium(tmp_path, *flags) as tab:
        with clean(tab, url_of(served)):
            await tab.go(url_of(served))
            await tab.click("#talk")
            await tab.until("document.querySelector('.turn.cut')")
            await tab.until("window.voicepipe.dropped > 0")
            cut = await tab.value("window.voicepipe")
            assert 0 < cut["played"] < REPLY_S * cut["rate_hz"] - cut["dropped"]
            await tab.until(ended(2))
            seen = await tab.value("window.voicepipe")
            assert seen["played"] == pytest.approx(cut["played"] + REPLY_S * seen["rate_hz"], abs=2)
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
