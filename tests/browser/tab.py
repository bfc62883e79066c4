"""One page of a real Chromium: what tests do to it, what it complained about, and whom it asked for what.

What is waited for is waited for in the page; the time limit is only there so that a failure ends, and says where.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""None where there is no browser to test with."""

PATIENCE_MS = 40_000
"""For a thing to happen in the page: a bound for failures."""

FLAGS = (
    "--no-sandbox",  # it sees this repository's page only, and containers run tests as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--host-resolver-rules=MAP voicepipe.test 127.0.0.1",
)
HERE = Path(__file__).parent


@dataclass
class Heard:
    """What the page has sent to the loudspeaker."""

    pcm: NDArray[np.float32]
    rate_hz: int
    first_frame: int
    """Of `pcm`, on the clock of the page's sound."""
    clocks: list[tuple[float, float]]
    """(s on the clock of the page's sound, ms since `time_origin_ms`), as the browser tells."""
    time_origin_ms: float
    """Wall clock."""

    def wall_ms(self, sample: int) -> float:
        """When a sample of `pcm` came out of the loudspeaker, by the wall clock."""
        context_s = (self.first_frame + sample) / self.rate_hz
        offsets = [page_ms - 1000 * sound_s for sound_s, page_ms in self.clocks]
        return self.time_origin_ms + 1000 * context_s + float(np.median(offsets))


@dataclass
class Tab:
    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)

    @property
    def elsewhere(self) -> list[str]:
        """Requests to other servers than the page's own."""
        own = "/".join(self.page.url.split("/")[:3])
        return [r for r in self.requests if not r.replace("ws://", "http://").startswith((f"{own}/", "data:"))]

    async def go(self, url: str) -> None:
        await self.page.goto(url)
        await self.until("'voicepipe' in window")

    async def value(self, expression: str) -> Any:
        return await self.page.evaluate(expression)

    async def until(self, condition: str) -> None:
        """A string would be evaluated by the page, which its policy forbids; so it goes in as a function."""
        limit = f"setTimeout(() => {{ clearInterval(t); done(false); }}, {PATIENCE_MS})"
        look = f"() => {{ if ({condition}) {{ clearInterval(t); clearTimeout(l); done(true); }} }}"
        wait = f"() => new Promise((done) => {{ const l = {limit}; const t = setInterval({look}, 20); }})"
        if not await self.page.evaluate(wait):
            seen = await self.value("document.body.innerText + JSON.stringify(window.voicepipe?.counters)")
            pytest.fail(f"never so: {condition}\n{seen}\n{self.complaints}")

    async def until_state(self, state: str) -> None:
        await self.until(f"document.body.dataset.state === {state!r}")

    async def until_noticed(self, kind: str) -> None:
        await self.until(f"!document.querySelector('#notice').hidden && {NOTICE_KIND} === {kind!r}")

    async def until_ended(self, turns: int) -> None:
        await self.until(f"document.querySelectorAll('.turn[data-verdict]').length >= {turns}")

    async def text(self, selector: str) -> str:
        found = await self.page.text_content(selector)
        assert isinstance(found, str)
        return found

    async def texts(self, selector: str) -> list[str]:
        found: list[str] = await self.page.locator(selector).all_text_contents()
        return found

    async def shown(self, selector: str) -> bool:
        return bool(await self.page.is_visible(selector))

    async def click(self, selector: str) -> None:
        await self.page.click(selector)

    async def say(self, text: str) -> None:
        """Typed, and Enter."""
        await self.page.fill("#text", text)
        await self.page.press("#text", "Enter")

    async def choose(self, **values: str) -> None:
        """In the settings."""
        await self.click("#open-settings")
        for name, value in values.items():
            control = self.page.locator(f"#choices [name={name}]")
            if await control.evaluate("(node) => node.tagName") == "SELECT":
                await control.select_option(value)
            else:
                await control.fill(value)
        await self.click("#choices [type=submit]")

    async def counters(self) -> dict[str, Any]:
        seen: dict[str, Any] = await self.value("window.voicepipe.counters")
        return seen

    async def heard(self) -> Heard:
        first, text = await self.value("window.heard.take()")
        rate_hz, clocks, origin = await self.value("[heard.rate_hz, heard.clocks, heard.timeOrigin]")
        pcm = np.frombuffer(base64.b64decode(text), "<i2").astype(np.float32) / 32768
        return Heard(pcm, round(rate_hz), first, [(s, ms) for s, ms in clocks], origin)


NOTICE_KIND = "document.querySelector('#notice').dataset.kind"


@asynccontextmanager
async def open_tab(browser: Any, *, tap: bool = False, **context: Any) -> AsyncIterator[Tab]:
    """A page with storage and permissions of its own. Leaving checks that it complained about nothing and that it
    asked nobody but its own server, unless the test has emptied `complaints` for what it provoked itself."""
    options = {"permissions": ["microphone"], "viewport": {"width": 1280, "height": 800}, **context}
    own = await browser.new_context(**options)
    try:
        page = await own.new_page()
        page.set_default_timeout(PATIENCE_MS)
        if tap:
            await page.add_init_script(path=HERE / "tap.js")
        tab = Tab(page)
        tab.watch()
        yield tab
        assert tab.complaints == []
        assert tab.elsewhere == []
    finally:
        await own.close()
