"""What can be chosen: settings and what they come to on the wire, push-to-talk, mute, devices, pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from msgspec import structs

from tests.browser.house import READY, REPLY, server, speech, telling, url_of
from tests.browser.tab import open_tab
from voicepipe.app import Serving
from voicepipe.connection import Connection
from voicepipe.core.admission import Grant
from voicepipe.wire.native import encode_server


async def test_choices_go_with_the_request_are_kept_and_can_come_with_a_link(browser: Any) -> None:
    started: list[dict[str, Any]] = []

    async def handler(connection: Connection, grant: Grant) -> None:
        started.append({**json.loads(str(await connection.recv())), "query": dict(connection.query)})
        budget_ms = float(connection.query.get("budget_ms", "200"))
        await connection.send(encode_server(structs.replace(READY, budget_ms=budget_ms)))
        while True:
            await connection.recv()

    async with telling(handler) as url, open_tab(browser) as tab:
        await tab.go(url)
        await tab.click("#talk")
        await tab.until_state("live")
        assert started[0]["query"] == {} and "operating_point" not in started[0]
        assert started[0]["audio"]["rate"] == started[0]["output_rate"]
        await tab.choose(budget_ms="350", operating_point="safe", enforcement="observe")
        await tab.until("document.querySelector('#facts').textContent.startsWith('350 ms')")
        await tab.page.reload()
        await tab.until("'voicepipe' in window")
        await tab.click("#talk")
        await tab.until_state("live")
        assert len(started) == 3
        for start in started[1:]:
            assert start["query"] == {"budget_ms": "350"}
            assert (start["operating_point"], start["enforcement"]) == ("safe", "observe")
        await tab.go(f"{url}?budget_ms=120&operating_point=balanced&enforcement=nonsense&route=desk")
        await tab.click("#talk")
        await tab.until_state("live")
        assert started[3]["query"] == {"budget_ms": "120", "route": "desk"}
        assert (started[3]["operating_point"], started[3]["enforcement"]) == ("balanced", "observe")
        socket = next(r for r in reversed(tab.requests) if r.startswith("ws:"))
        assert parse_qs(urlsplit(socket).query) == {"budget_ms": ["120"], "route": ["desk"]}


async def test_push_to_talk_sends_what_is_said_while_the_button_is_held_and_nothing_else(
    browser: Any, microphone: Path
) -> None:
    speech(microphone, (0.0, 30.0))
    async with server() as served, open_tab(browser) as tab:
        await tab.go(f"{url_of(served)}?turn_taking=manual")
        await tab.value(TAP_OF_FRAMES)
        await tab.click("#talk")
        await tab.until_state("live")
        await tab.until("window.frames_sent.length > 20")
        assert not np.any(await tab.value("window.frames_sent"))  # silence, whatever the microphone hears
        await tab.page.hover("#push")
        await tab.page.mouse.down()
        await tab.until("document.querySelector('#status').textContent === 'Listening while you hold'")
        await tab.until("document.querySelector('.turn')")
        await tab.until("window.frames_sent.filter((peak) => peak > 0).length > 20")
        await tab.page.mouse.up()
        await tab.until("document.querySelector('.turn').dataset.phase === 'speaking'")
        spoken = await tab.value("window.frames_sent.filter((peak) => peak > 0).length")
        await tab.page.focus("h1 ~ nav a")
        await tab.page.evaluate("document.activeElement.blur()")
        await tab.page.keyboard.down(" ")  # over the answer, which falls silent at once
        await tab.until("document.querySelector('.turn.cut')")
        await tab.until(f"window.frames_sent.filter((peak) => peak > 0).length > {spoken + 20}")
        await tab.page.keyboard.up(" ")
        await tab.until_ended(2)
        assert await tab.text(".turn:last-child .reply") == REPLY


async def test_mute_sends_silence(browser: Any, microphone: Path, served: Serving) -> None:
    speech(microphone, (0.0, 30.0))
    async with open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.value(TAP_OF_FRAMES)
        await tab.click("#talk")
        await tab.until("window.frames_sent.some((peak) => peak > 0)")
        await tab.click("#mute")
        await tab.until(
            "window.frames_sent.length > 10 && window.frames_sent.slice(-10).every((peak) => peak === 0)"
        )
        assert await tab.page.get_attribute("#mute", "aria-pressed") == "true"
        await tab.click("#mute")
        await tab.until("window.frames_sent.at(-1) > 0")


async def test_devices_are_offered_by_name_and_changed_within_a_session(browser: Any, served: Serving) -> None:
    async with open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until_state("live")
        await tab.click("#open-settings")
        await tab.until("document.querySelector('[name=input]').options.length > 1")
        name = await tab.page.locator("[name=input] option").nth(1).inner_text()
        assert "Fake" in name
        before = await tab.value("voicepipe.talk.sound.stream.id")
        await tab.page.locator("[name=input]").select_option(index=1)
        await tab.click("#choices [type=submit]")
        await tab.until(f"voicepipe.talk.sound.stream.id !== {before!r}")
        assert await tab.value("voicepipe.talk.sound.stream.getAudioTracks()[0].label") == name
        sent = await tab.value("voicepipe.talk.wire.socket.readyState")
        assert sent == 1  # the same session
        await tab.value("() => { voicepipe.settings.values.input = 'gone'; }")
        await tab.value("() => voicepipe.talk.sound.useInput('gone')")  # any other, then
        assert await tab.value("voicepipe.talk.sound.stream.active")


async def test_the_pictures_of_a_folder_are_shown(browser: Any, served: Serving) -> None:
    async with open_tab(browser) as tab:
        await tab.page.goto(url_of(served))
        await tab.click("nav a")
        await tab.until("document.querySelectorAll('figure img').length >= 10")
        await tab.value("() => document.querySelectorAll('img').forEach((image) => (image.loading = 'eager'))")
        await tab.until("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
        alone = await tab.page.locator("figure a").first.get_attribute("href")
        await tab.page.goto(f"{url_of(served)}{alone}")


TAP_OF_FRAMES = """() => {
  window.frames_sent = []; // the peak of each
  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    if (typeof data !== "string") {
      const samples = new Int16Array(data, 8);
      window.frames_sent.push(samples.reduce((peak, value) => Math.max(peak, Math.abs(value)), 0));
    }
    return send.call(this, data);
  };
}"""
