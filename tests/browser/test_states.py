"""When it does not just work: what the page says, what it offers to do, and that it comes back."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

from tests.browser.house import READY, REPLY, ended, server, speech, telling, url_of
from tests.browser.tab import CHROMIUM, FLAGS, open_tab
from voicepipe.app import Serving
from voicepipe.connection import Connection
from voicepipe.core.admission import Grant
from voicepipe.errors import SessionLimit
from voicepipe.wire import messages as wire
from voicepipe.wire.native import encode_server
from voicepipe_client import connect as talk_to


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


async def test_a_refused_page_says_when_to_come_back_and_its_button_waits_until_then(browser: Any) -> None:
    async with server() as served, open_tab(browser) as tab:
        await tab.go(url_of(served))
        async with talk_to(f"ws://127.0.0.1:{served.server.port}", rate=16_000):
            await tab.click("#talk")
            await tab.until_state("refused")
            assert await tab.text("#notice .title") == "Every place on this server is taken."
            assert re.fullmatch(r"There may be room in \d+ s.", await tab.text("#notice .countdown"))
            assert await tab.text("#notice .primary") == "Wait and connect"
            await tab.value("talk => voicepipe.talk.state.due = performance.now() + 60000")
            await tab.click("#notice .primary")
            assert await tab.page.get_attribute("#notice .primary", "aria-disabled") == "true"
            assert "Connecting in" in await tab.text("#notice .countdown")
        await tab.value("() => voicepipe.talk.onDue()")
        await tab.until_state("live")
        assert not await tab.shown("#notice")


async def test_who_waits_and_is_refused_again_goes_on_waiting(browser: Any) -> None:
    asked = 0

    async def handler(connection: Connection, grant: Grant) -> None:
        nonlocal asked
        asked += 1
        await connection.recv()
        if asked < 3:
            await connection.send(encode_server(wire.Refused("burst", 200 if asked > 1 else 60_000)))
            await connection.close(1013, "burst")
            return
        await connection.send(encode_server(READY))
        while True:
            await connection.recv()

    async with telling(handler) as url, open_tab(browser) as tab:
        await tab.go(url)
        await tab.click("#talk")
        await tab.until_state("refused")
        await tab.click("#notice .primary")
        await tab.value("() => voicepipe.talk.onDue()")
        await tab.until_state("live")
        assert asked == 3


async def test_a_refusal_that_nobody_waits_for_can_be_tried_again_when_its_time_is_over(browser: Any) -> None:
    async def handler(connection: Connection, grant: Grant) -> None:
        await connection.recv()
        await connection.send(encode_server(wire.Refused("burst", 300)))
        await connection.close(1013, "burst")

    async with telling(handler) as url, open_tab(browser) as tab:
        await tab.go(url)
        await tab.click("#talk")
        await tab.until("document.querySelector('#notice .countdown').textContent === 'You can try again now.'")
        assert await tab.text("#notice .title") == "The server could not answer one more person in time."
        assert await tab.text("#notice .primary") == "Try again"
        await tab.click("#notice .secondary")
        await tab.until_state("off")


async def test_a_place_in_the_waiting_room_is_shown_and_taken(browser: Any, microphone: Path) -> None:
    speech(microphone, (0.5, 1.0))
    async with server(waiting_places=1) as served, open_tab(browser) as tab:
        await tab.go(url_of(served))
        async with talk_to(f"ws://127.0.0.1:{served.server.port}", rate=16_000):
            await tab.click("#talk")
            await tab.until_state("waiting")
            assert "You are number 1 in the line" in await tab.text("#notice .title")
        await tab.until_state("live")
        assert not await tab.shown("#notice")


async def test_a_lost_connection_comes_back_and_the_conversation_goes_on(browser: Any) -> None:
    """The new session is told what had been said."""
    told: list[str] = []
    port = free_port()

    async def handler(connection: Connection, grant: Grant) -> None:
        assert '"session.start"' in str(await connection.recv())
        await connection.send(encode_server(READY))
        while True:
            told.append(str(await connection.recv()))
            if '"input.text"' in told[-1]:
                for message in (
                    wire.TranscriptFinal(1, "Hello"),
                    wire.TurnCommitted(1, 1),
                    wire.ReplyText(1, 1, "Hello to you."),
                    ended(1),
                ):
                    await connection.send(encode_server(message))

    async with open_tab(browser) as tab:
        async with telling(handler, port=port) as url:
            await tab.go(url)
            await tab.say("Hello")
            await tab.until_ended(1)
        await tab.until_state("lost")
        assert "The server has shut down, or restarts." in await tab.text("#notice .title")
        assert re.fullmatch(r"Trying again( in \d+ s)?\.", await tab.text("#notice .countdown"))
        await tab.click("#notice .primary")
        await tab.until("document.querySelector('#notice .title').textContent.includes('does not answer')")
        told.clear()
        async with telling(handler, port=port):
            await tab.until_state("live")  # by itself
            await tab.say("Go on")
            await tab.until_ended(2)
        history = [line for line in told if "history.add" in line]
        assert ['"Hello"' in history[0], '"Hello to you."' in history[1]] == [True, True]
        assert await tab.texts(".turn .stable") == ["Hello", "Hello"]
        tab.complaints.clear()  # of a server that was not there


async def test_a_page_that_loses_its_way_to_a_living_server_resumes(browser: Any) -> None:
    """The server itself has kept the conversation: it goes on, and the page says so until something is said."""
    async with server() as served, open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.say("Hello")
        await tab.until_ended(1)
        for socket_there in set(served.server._socket_class.everyone):
            socket_there.transport.abort()
        await tab.until_state("lost")
        await tab.until_state("live")
        assert await tab.text("#notice .title") == "Connected again: the conversation goes on."
        assert await tab.value("() => voicepipe.talk.ready.resumed") is True
        await tab.say("Go on")
        await tab.until_ended(2)
        assert not await tab.shown("#notice")
        assert await tab.text(".turn:last-child .reply") == REPLY
        await tab.click("#talk")
        await tab.until_state("off")
        assert await tab.value("() => voicepipe.talk.token") is None
        tab.complaints.clear()  # of a connection that was lost


async def test_the_first_answer_of_a_new_session_is_heard_though_its_epochs_begin_anew(
    browser: Any, served: Serving
) -> None:
    async with open_tab(browser, permissions=[]) as tab:
        await tab.go(url_of(served))
        for turn in (1, 2, 3):
            await tab.say("Hello")  # over the answer before
            await tab.until(f"voicepipe.talk.committed.epoch >= {turn}")
        await tab.until_ended(3)
        before = await tab.counters()
        await tab.choose(budget_ms="333")
        await tab.until("document.querySelector('#facts').textContent.startsWith('333 ms')")
        await tab.say("And now?")
        await tab.until(f"window.voicepipe.counters.played > {before['played'] + before['rate_hz']}")
        await tab.until("document.querySelector('.turn:last-child').dataset.verdict")
        assert await tab.text(".turn:last-child .reply") == REPLY


async def test_a_server_that_drains_lets_the_turn_end_and_is_looked_for_again(browser: Any) -> None:
    async with server() as served, open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.say("Hello")
        await tab.until("window.voicepipe.counters.played > 0")
        draining = asyncio.create_task(served.stop(10.0))
        await tab.until_noticed("draining")
        assert re.fullmatch(r"At most \d+ s are left.", await tab.text("#notice .countdown"))
        await tab.until_ended(1)
        assert await tab.text(".reply") == REPLY
        await tab.until_state("lost")
        await draining
        tab.complaints.clear()  # of a server that was not there


async def test_a_page_that_may_not_use_the_microphone_says_what_to_do(browser: Any, served: Serving) -> None:
    async with open_tab(browser, permissions=[]) as tab:
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until_noticed("denied")
        assert "may not use the microphone" in await tab.text("#notice .title")
        assert "Allow it beside the address" in await tab.text("#notice .help")
        await tab.page.context.grant_permissions(["microphone"])
        await tab.click("#notice .primary")
        await tab.until_state("live")


async def test_a_machine_without_a_microphone_and_a_page_without_encryption(playwright: Any) -> None:
    """The second: plain http from another name. No microphone and no worklets: answers are read, not heard."""
    port = free_port()
    url = f"http://voicepipe.test:{port}/"
    bare = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
    try:
        async with server(port=port, origins=(url.rstrip("/"),)):
            async with open_tab(bare) as tab:
                await tab.go(f"http://127.0.0.1:{port}/")
                await tab.click("#talk")
                await tab.until_noticed("no-microphone")
                assert await tab.text("#notice .title") == "No microphone was found."
            async with open_tab(bare, permissions=[]) as tab:
                await tab.go(url)
                await tab.click("#talk")
                await tab.until_noticed("insecure")
                assert "plain http" in await tab.text("#notice .help")
                await tab.say("Hello")
                await tab.until_ended(1)
                assert await tab.text(".reply") == REPLY
    finally:
        await bare.close()


async def test_a_token_that_is_asked_for_opens_the_door(browser: Any) -> None:
    async with server(tokens=frozenset({"s3cret"})) as served, open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until_noticed("unauthorized")
        await tab.click("#notice .primary")
        assert await tab.value("document.activeElement.name") == "token"
        await tab.page.keyboard.type("two words")
        await tab.page.keyboard.press("Enter")
        await tab.until("document.querySelector('#notice .title').textContent.includes('cannot be sent')")
        await tab.choose(token="s3cret")
        await tab.until_state("live")
        assert "s3cret" not in str(await tab.value("JSON.stringify({...localStorage, ...sessionStorage})"))


async def test_a_way_on_which_nothing_gets_through_is_taken_for_broken(browser: Any) -> None:
    """Browsers notice after minutes: here five seconds, which the test does not wait for."""
    async with server() as served, open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until_state("live")
        await tab.value("() => Object.defineProperty(voicepipe.talk.wire.socket, 'bufferedAmount', { value: 1e6 })")
        await tab.until("voicepipe.talk.wire.unsent > 0")
        await tab.value("() => (voicepipe.talk.wire.stalledSince -= 6000)")
        await tab.until_state("lost")
        assert await tab.text("#notice .title") == "The connection was lost: nothing gets through."
        await tab.until_state("live")


async def test_a_session_that_the_server_ends_is_not_begun_again_by_itself(browser: Any) -> None:
    error = wire.Error(code="session_limit", message="the session was idle")

    async def handler(connection: Connection, grant: Grant) -> None:
        await connection.recv()
        await connection.send(encode_server(READY))
        await connection.send(encode_server(error))
        raise SessionLimit(error.message)

    async with telling(handler) as url, open_tab(browser) as tab:
        await tab.go(url)
        await tab.click("#talk")
        await tab.until_state("fault")
        assert await tab.text("#notice .title") == "The server ended this conversation."
        assert await tab.text("#notice .help") == "the session was idle."


async def test_start_and_stop_in_a_hurry_leave_one_session_and_no_complaint(browser: Any, served: Serving) -> None:
    async with open_tab(browser) as tab:
        await tab.go(url_of(served))
        hurry = "document.querySelector('#talk').click(); await new Promise((done) => setTimeout(done, 7 * i));"
        await tab.value(f"async () => {{ for (let i = 0; i < 21; i++) {{ {hurry} }} }}")
        await tab.until_state("live")
        await tab.say("Hello")
        await tab.until_ended(1)


async def test_a_microphone_that_goes_away_is_told_and_the_session_stays(browser: Any, served: Serving) -> None:
    async with open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until_state("live")
        await tab.value("() => voicepipe.talk.sound.stream.getAudioTracks()[0].onended()")
        await tab.until_noticed("note")
        assert "microphone has gone away" in await tab.text("#notice .title")
        assert await tab.value("document.body.dataset.state") == "live"


async def test_sound_that_the_browser_stops_can_be_started_again(browser: Any, served: Serving) -> None:
    async with open_tab(browser) as tab:
        await tab.go(url_of(served))
        await tab.click("#talk")
        await tab.until_state("live")
        await tab.value("() => voicepipe.talk.sound.context.suspend()")
        await tab.until_noticed("stalled")
        await tab.click("#notice .primary")
        await tab.until("document.querySelector('#notice').hidden")


async def test_an_acknowledgement_is_shown_and_counts_in_the_places_of_the_answer(browser: Any) -> None:
    """Words appear when their sound does, which lies behind that of the acknowledgement."""
    heard = asyncio.Event()
    sound = b"\x00\x10" * 24_000  # half a second at 48 kHz

    async def handler(connection: Connection, grant: Grant) -> None:
        await connection.recv()
        await connection.send(encode_server(READY))
        assert '"input.text"' in str(await connection.recv())
        for message in (
            wire.TranscriptFinal(1, "Hello"),
            wire.TurnCommitted(1, 1),
            wire.ReplyAcknowledged(1, 1, samples=24_000),
            wire.AudioFrame(1, 0, sound),
        ):
            await connection.send(encode_server(message))
        while '"played_samples":24000' not in str(await connection.recv()):
            pass
        await heard.wait()
        for message in (
            wire.ReplyText(1, 1, "Yes."),
            wire.AudioFrame(1, 24_000, sound),
            wire.ReplyDone(1, 1, 48_000),
        ):
            await connection.send(encode_server(message))
        while '"played_samples":48000' not in str(await connection.recv()):
            pass
        await connection.send(encode_server(ended(1, verdict="masked")))
        await connection.recv()

    async with telling(handler) as url, open_tab(browser) as tab:
        await tab.go(url)
        await tab.say("Hello")
        await tab.until("document.querySelector('.turn.acknowledged')")
        await tab.until("window.voicepipe.counters.played >= 24000")
        assert await tab.text(".reply") == ""
        heard.set()
        await tab.until_ended(1)
        assert await tab.text(".reply") == "Yes."
        assert await tab.text("[data-part=headline]") == "a short sound in time, the answer late: 152 ms of 200 ms"
