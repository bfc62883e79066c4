"""For those who see little, use no mouse or listen to the page: axe-core's rules in every state; the keyboard."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest

from tests.browser.house import READY, ended, telling, url_of
from tests.browser.tab import Tab, open_tab
from voicepipe.app import Serving
from voicepipe.connection import Connection
from voicepipe.core.admission import Grant
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_server

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, which this package ships."""
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed (extra 'test')")
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


async def findings(tab: Tab, axe: str) -> list[str]:
    """What breaks a rule of WCAG 2.2 A or AA, or a practice that axe-core rates as serious."""
    await tab.value(axe)
    found = await tab.value("axe.run(document, { resultTypes: ['violations'] })")
    worst = [rule for rule in found["violations"] if rule["impact"] in ("serious", "critical", "moderate")]
    return [f"{rule['id']}: {[node['html'][:200] for node in rule['nodes']]}" for rule in worst]


async def conversing(connection: Connection, grant: Grant) -> None:
    """Three turns: in time, late, and one that is being heard."""
    await connection.recv()
    await connection.send(encode_server(READY))
    late = wire.Blame("llm", "service", 87.0)
    for message in (
        wire.TranscriptFinal(1, "What is the capital of France?"),
        wire.TurnCommitted(1, 1),
        wire.ReplyText(1, 1, "It is Paris.", offset_samples=0),
        ended(1),
        wire.TranscriptFinal(2, "And of Italy?"),
        wire.TurnCommitted(2, 2),
        ended(2, verdict="missed", felt_estimate_ms=287.0, blame=late),
        wire.TranscriptPartial(3, "How long", "should eye"),
    ):
        await connection.send(encode_server(message))
    while True:
        if '"input.text"' in str(await connection.recv()):
            await connection.send(encode_server(wire.Draining(60_000.0)))


async def insecure(tab: Tab, url: str) -> None:
    """Plain http from another name than this machine's."""
    await tab.go(url.replace("127.0.0.1", "voicepipe.test"))
    await tab.click("#talk")
    await tab.until_noticed("insecure")


@pytest.mark.parametrize(("scheme", "size"), [("light", {"width": 1280, "height": 800}), ("dark", PHONE)])
async def test_nothing_serious_is_found_in_any_state(browser: Any, axe: str, scheme: str, size: Any) -> None:
    async with telling(conversing) as url, open_tab(browser, color_scheme=scheme, viewport=size) as tab:
        await tab.go(url)
        seen = {"off": await findings(tab, axe)}
        await tab.click("#talk")
        await tab.until("document.querySelector('.turn:last-child .tentative')?.textContent")
        await tab.page.evaluate("() => (document.querySelector('#times').open = true)")
        seen["live"] = await findings(tab, axe)
        await tab.click("#open-settings")
        seen["settings"] = await findings(tab, axe)
        await tab.page.keyboard.press("Escape")
        await tab.say("Goodbye")
        await tab.until_noticed("draining")
        seen["draining"] = await findings(tab, axe)
        for name, state in STATES.items():
            await tab.value(f"() => voicepipe.talk.enter({state})")
            seen[name] = await findings(tab, axe)
        await tab.click("#notice .secondary")
        await tab.page.goto(f"{url}experiments")
        seen["experiments"] = await findings(tab, axe)
        async with open_tab(browser, color_scheme=scheme, viewport=size, permissions=[]) as plain:
            await insecure(plain, url)
            seen["insecure"] = await findings(plain, axe)
        assert {state: found for state, found in seen.items() if found} == {}


STATES = {
    "waiting": "{ name: 'waiting', position: 2 }",
    "refused": "{ name: 'refused', title: 'Full.', due: performance.now() + 9000, willRetry: false }",
    "refused, waiting": "{ name: 'refused', title: 'Full.', due: performance.now() + 9000, willRetry: true }",
    "lost": "{ name: 'lost', title: 'Gone.', due: performance.now() + 9000, willRetry: true }",
    "denied": "{ name: 'fault', kind: 'denied', title: 'No.', help: 'Allow it.' }",
}


async def test_everything_is_reached_and_used_by_keyboard(browser: Any, served: Serving) -> None:
    async with open_tab(browser) as tab:
        await tab.go(url_of(served))
        reached = []
        for _ in range(7):
            await tab.page.keyboard.press("Tab")
            reached.append(await tab.value("document.activeElement.id || document.activeElement.tagName"))
        assert reached == ["A", "open-settings", "conversation", "SUMMARY", "talk", "text", "BUTTON"]
        await tab.page.focus("#talk")
        await tab.page.keyboard.press("Enter")
        await tab.until_state("live")
        await tab.page.focus("#text")
        await tab.page.keyboard.type("Hello")
        await tab.page.keyboard.press("Enter")
        await tab.until_ended(1)
        await tab.page.focus(".turn .times")
        await tab.page.keyboard.press("Enter")
        assert await tab.value("document.activeElement.tagName") == "SUMMARY"
        await tab.page.focus("#open-settings")
        await tab.page.keyboard.press("Enter")
        assert await tab.value("document.activeElement.name") == "budget_ms"
        await tab.page.keyboard.press("Escape")
        assert await tab.value("document.activeElement.id") == "open-settings"
        await tab.page.focus("#talk")
        await tab.page.keyboard.press("Space")
        await tab.until_state("off")


async def test_nothing_is_wider_than_a_small_phone(browser: Any) -> None:
    async with telling(conversing) as url, open_tab(browser, viewport={"width": 320, "height": 568}) as tab:
        await tab.go(url)
        await tab.click("#talk")
        await tab.until("document.querySelector('.history td')")
        for action in ("() => 0", "() => (document.querySelector('#times').open = true)"):
            await tab.value(action)
            assert await tab.value("document.documentElement.scrollWidth") <= 320
            assert await tab.value("document.documentElement.scrollHeight") <= 568
        await tab.page.goto(f"{url}experiments")
        assert await tab.value("document.documentElement.scrollWidth") <= 320


async def test_what_to_press_stays_in_sight_on_a_small_phone_whatever_is_said(browser: Any) -> None:
    """The two longest notices."""
    size = {"width": 320, "height": 568}
    async with telling(conversing) as url:
        async with open_tab(browser, viewport=size) as tab:
            await tab.go(url)
            await tab.click("#talk")
            await tab.until_state("live")
            await tab.say("Goodbye")
            await tab.until_noticed("draining")
            assert await tab.value(LOWEST) <= 568
        async with open_tab(browser, viewport=size, permissions=[]) as tab:
            await insecure(tab, url)
            assert await tab.value(LOWEST) <= 568
            await tab.click("#notice .primary")
            assert await tab.value("document.activeElement.id") == "text"


LOWEST = "Math.max(...['#talk', '#type'].map((s) => document.querySelector(s).getBoundingClientRect().bottom))"
