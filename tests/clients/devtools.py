"""A headless Chromium, driven and watched over the DevTools protocol.

What is waited for is waited for in the page; the time limit is only there so that a failure ends, and says
where.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""None where there is no browser to test with."""

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
