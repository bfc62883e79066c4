"""Coming back, in virtual time: the conversation goes on, nothing of what was said before is heard again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests import virtual
from tests.driving import Caller, House, ListeningLlm, call, check_nothing_left, engines, open_house, visit
from voicepipe.config import Config, LimitsConfig, ScriptedConfig
from voicepipe.core.history import Kept
from voicepipe.core.parking import ParkingSettings
from voicepipe.errors import ResumeUnknown
from voicepipe.resumption import Resumption, owner_of
from voicepipe.wire import messages as wire

CONFIG = ScriptedConfig(reply="This is a scripted reply. It has two sentences.", transcripts=("One.", "Two."))
KEPT = Kept((), 4, 9)
PLAYED = 16_000
"""Samples: the first words of the reply."""


def play(main: Callable[[House, ListeningLlm], Awaitable[None]], slots: int = 2) -> House:
    async def run() -> House:
        llm = ListeningLlm(CONFIG, slots)
        async with open_house(engines(CONFIG, llm=llm)) as house:
            await main(house, llm)
        house.services.resumption.close()
        check_nothing_left()
        return house

    return virtual.run(run())


async def ask(caller: Caller, text: str) -> None:
    """A typed turn, heard to its end."""
    before = len(caller.verdicts)
    await caller.send(wire.InputText(text))
    await caller.pause_until_verdict(before + 1)


async def first_visit(house: House, *, code: int = 1006) -> Caller:
    """One turn, then the connection is gone. Its token is in `session.ready`."""

    async def script(caller: Caller) -> None:
        await caller.start(resume=True)
        await ask(caller, "My name is Ada.")
        await caller.hang_up(code)

    return await visit(house, script)


def token_of(caller: Caller) -> str:
    token = caller.of(wire.SessionReady)[0].resume
    assert token is not None
    return token


def test_a_conversation_goes_on() -> None:
    """The model is shown what was said before; turns are counted on; sound has a later epoch than any before."""

    async def main(house: House, llm: ListeningLlm) -> None:
        first = await first_visit(house)
        assert not first.of(wire.SessionReady)[0].resumed
        token = token_of(first)

        async def script(caller: Caller) -> None:
            await caller.start(resume=token)
            before = len(caller.verdicts)
            await caller.send(wire.InputText("What is my name?"))
            await caller.pause_until_verdict(before + 1)

        second = await unchecked_visit(house, script)
        ready = second.of(wire.SessionReady)[0]
        assert ready.resumed and ready.resume not in (None, token)
        said = llm.asked
        assert ("user", "My name is Ada.") in said and said[-1] == ("user", "What is my name?")
        assert any(role == "assistant" for role, _ in said)
        committed = second.of(wire.TurnCommitted)[0]
        assert committed.turn == 2
        old = {frame.epoch for frame in first.of(wire.AudioFrame)}
        new = {frame.epoch for frame in second.of(wire.AudioFrame)}
        assert old and new and min(new) > max(old)

    play(main)


async def unchecked_visit(house: House, script: Callable[[Caller], Awaitable[None]], ident: str = "s2") -> Caller:
    """A visit whose turns do not begin at 1."""
    caller = Caller(house, ident, None, 100_000)
    async with asyncio.TaskGroup() as group:
        group.create_task(caller.be_served())
        listening = group.create_task(caller.listen())
        await script(caller)
        if caller.closed is None:
            await caller.hang_up()
        await caller.gone()
        await listening
    return caller


@pytest.mark.parametrize("code", [1001, 1006, 1012])
def test_a_session_that_lost_its_connection_holds_text_and_nothing_else(code: int) -> None:
    """Its slot is back before anybody comes for it."""

    async def main(house: House, llm: ListeningLlm) -> None:
        await first_visit(house, code=code)
        assert house.leased == house.observer.leases == 0
        assert house.services.resumption.snapshot().parked == 1

    play(main)


@pytest.mark.parametrize("code", [1000, 1002, 1009])
def test_a_session_that_was_ended_is_not_kept(code: int) -> None:
    """Nor one whose client breaks the protocol: it may not come back."""

    async def main(house: House, llm: ListeningLlm) -> None:
        await first_visit(house, code=code)
        assert house.services.resumption.snapshot().parked == 0

    play(main)


def test_session_end_ends_it_for_good() -> None:
    async def main(house: House, llm: ListeningLlm) -> None:
        async def script(caller: Caller) -> None:
            await caller.start(resume=True)
            await caller.wait(0.1)
            await caller.end()

        await visit(house, script)
        snapshot = house.services.resumption.snapshot()
        assert snapshot.parked == snapshot.live == 0

    play(main)


def test_who_does_not_ask_gets_no_token_and_is_not_kept() -> None:
    async def script(caller: Caller) -> None:
        await caller.start()
        await caller.wait(0.1)

    caller = call(script)
    assert caller.of(wire.SessionReady)[0].resume is None
    assert caller.house.services.resumption.snapshot().parked == 0


def test_a_token_that_leads_nowhere_is_an_error_and_the_place_is_kept() -> None:
    """Used, expired or made up: told at once, sound that was sent for the old session is passed over, and another
    `session.start` begins afresh on the same connection."""

    async def main(house: House, llm: ListeningLlm) -> None:
        async def script(caller: Caller) -> None:
            await caller.start(resume="A" * 22)
            await caller.pause(0.1)
            await caller.start(resume=True)
            await ask(caller, "Hello.")

        caller = await visit(house, script)
        assert caller.kinds()[:2] == ["Error", "SessionReady"] and caller.errors == ["resume_unknown"]
        error = caller.of(wire.Error)[0]
        assert error.field == "resume" and "AAAA" not in error.message
        ready = caller.of(wire.SessionReady)[0]
        assert not ready.resumed and ready.resume is not None
        assert len(caller.verdicts) == 1
        assert house.observer.client_errors == ["resume_unknown"]

    play(main)


def test_who_guesses_twice_is_closed() -> None:
    async def main(house: House, llm: ListeningLlm) -> None:
        async def script(caller: Caller) -> None:
            await caller.start(resume="A" * 22)
            await caller.start(resume="B" * 22)
            await caller.gone()

        caller = await visit(house, script)
        assert caller.closed is not None and (caller.closed.code, caller.closed.reason) == (4400, "resume_unknown")
        assert not caller.of(wire.SessionReady)

    play(main)


def test_a_token_is_used_up() -> None:
    async def main(house: House, llm: ListeningLlm) -> None:
        token = token_of(await first_visit(house))

        async def script(caller: Caller) -> None:
            await caller.start(resume=token)
            await caller.wait(0.1)

        assert (await unchecked_visit(house, script)).of(wire.SessionReady)[0].resumed
        again = await unchecked_visit(house, script, "s3")
        assert again.errors == ["resume_unknown"]

    play(main)


def test_nobody_is_kept_for_more_than_thirty_seconds() -> None:
    """Also where nothing else happens: the timer is the server's own."""

    async def main(house: House, llm: ListeningLlm) -> None:
        token = token_of(await first_visit(house))
        await asyncio.sleep(29.0)
        assert house.services.resumption.snapshot().parked == 1
        await asyncio.sleep(1.1)
        snapshot = house.services.resumption.snapshot()
        assert snapshot.parked == snapshot.n_bytes == 0 and snapshot.outcomes["expired"] == 1

        async def script(caller: Caller) -> None:
            await caller.start(resume=token)
            await caller.wait(0.1)

        assert (await unchecked_visit(house, script)).errors == ["resume_unknown"]

    play(main)


def test_a_dead_connection_is_left_for_the_one_that_comes_back() -> None:
    """Half-open: the server does not know yet that the old one is gone. It is closed with 4410, and what was being
    said is over."""

    async def main(house: House, llm: ListeningLlm) -> None:
        ready = asyncio.Event()
        tokens: list[str] = []

        async def old(caller: Caller) -> None:
            await caller.start(resume=True)
            await ask(caller, "My name is Ada.")
            tokens.append(token_of(caller))
            await caller.send(wire.InputText("Tell me more."))
            await caller.wait(0.3)
            ready.set()
            await caller.gone()

        async def new(caller: Caller) -> None:
            await ready.wait()
            await caller.start(resume=tokens[0])
            await ask(caller, "What is my name?")

        async with asyncio.TaskGroup() as group:
            first = group.create_task(visit(house, old))
            second = group.create_task(unchecked_visit(house, new))
        closed = first.result().closed
        assert closed is not None and closed.code == 4410
        assert second.result().of(wire.SessionReady)[0].resumed
        assert second.result().of(wire.TurnCommitted)[0].turn == 3
        assert house.observer.verdicts[1] != "failed"
        heard = max(frame.epoch for frame in first.result().of(wire.AudioFrame))
        assert min(frame.epoch for frame in second.result().of(wire.AudioFrame)) > heard
        assert ("user", "Tell me more.") in llm.asked

    play(main, slots=2)


@pytest.mark.parametrize("reports", [True, False])
def test_only_what_was_heard_is_kept(reports: bool) -> None:
    """As after a barge-in. What had been reported is what was heard; without reports the server's clock says."""

    async def main(house: House, llm: ListeningLlm) -> None:
        async def script(caller: Caller) -> None:
            await caller.start(resume=True)
            await caller.send(wire.InputText("Talk."))
            await caller.pause_until(wire.AudioFrame)
            await caller.wait(1.1)
            if reports:
                await caller.send(wire.Playback(caller.of(wire.TurnCommitted)[0].epoch, PLAYED))
            await caller.wait(1.4)

        token = token_of(await visit(house, script))
        found = await house.services.resumption.redeem(token, owner_of(None))
        said = [entry.line for entry in found.kept.entries if entry.line.role == "assistant"]
        text = said[0].text if said else ""
        assert text.endswith("…") and len(text) < len(CONFIG.reply)
        assert ("It" in text) is not reports, text

    play(main)


def test_a_reply_that_seemed_heard_and_was_not_is_cut() -> None:
    """The way was dead for longer than the reply took: the clock says that it was heard, the reports do not."""

    async def main(house: House, llm: ListeningLlm) -> None:
        async def script(caller: Caller) -> None:
            await caller.start(resume=True)
            await caller.send(wire.InputText("Talk."))
            await caller.pause_until(wire.AudioFrame)
            await caller.wait(1.1)
            await caller.send(wire.Playback(caller.of(wire.TurnCommitted)[0].epoch, PLAYED))
            await caller.wait(15.0)
            assert len(caller.verdicts) == 1, "it has ended as if it had been heard"

        token = token_of(await visit(house, script))
        found = await house.services.resumption.redeem(token, owner_of(None))
        text = next(entry.line.text for entry in found.kept.entries if entry.line.role == "assistant")
        assert text.endswith("…") and "It" not in text

    play(main)


def test_what_cannot_be_begun_is_put_back() -> None:
    """No slot is free: the client is told, and may try its token again."""

    async def main(house: House, llm: ListeningLlm) -> None:
        token = token_of(await first_visit(house))
        slot = llm.open("somebody else")

        async def script(caller: Caller) -> None:
            await caller.start(resume=token)
            await caller.gone()

        caller = await unchecked_visit(house, script)
        assert caller.errors == ["engine_busy"] and caller.closed is not None and caller.closed.code == 1013
        slot.close()

        async def again(caller: Caller) -> None:
            await caller.start(resume=token)
            await caller.wait(0.1)

        assert (await unchecked_visit(house, again, "s3")).of(wire.SessionReady)[0].resumed

    play(main, slots=1)


def test_the_owner_is_the_credential_and_does_not_show_it() -> None:
    assert owner_of("a") != owner_of("b") and owner_of(None) == owner_of("")
    assert "hunter2" not in owner_of("hunter2")


def test_tokens_are_of_128_bits_and_all_different() -> None:
    async def main() -> None:
        resumption = Resumption()
        tokens = {resumption.begin(f"s{n}", "me").token for n in range(1000)}
        assert len(tokens) == 1000 and {len(token) for token in tokens} == {22}

    virtual.run(main())


def test_a_session_that_does_not_leave_is_not_waited_for_for_ever() -> None:
    async def main() -> None:
        resumption = Resumption()
        seat = resumption.begin("a", "me")
        began = asyncio.get_running_loop().time()
        with pytest.raises(ResumeUnknown):
            await resumption.redeem(seat.token, "me")
        assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)

    virtual.run(main())


def test_of_two_who_come_at_once_one_gets_it() -> None:
    async def main() -> None:
        resumption = Resumption()
        seat = resumption.begin("a", "me")

        async def leave() -> None:
            await seat.moved.wait()
            seat.leave(KEPT)

        async def redeem() -> bool:
            try:
                return (await resumption.redeem(seat.token, "me")).kept is KEPT
            except ResumeUnknown:
                return False

        async with asyncio.TaskGroup() as group:
            group.create_task(leave())
            both = [group.create_task(redeem()) for _ in range(2)]
        assert sorted(one.result() for one in both) == [False, True]
        resumption.close()

    virtual.run(main())


def test_no_log_holds_a_token(caplog: pytest.LogCaptureFixture) -> None:
    """At any level, whatever becomes of it."""
    caplog.set_level(logging.DEBUG)
    tokens: list[str] = []

    async def main(house: House, llm: ListeningLlm) -> None:
        tokens.append(token_of(await first_visit(house)))

        async def script(caller: Caller) -> None:
            await caller.start(resume=tokens[0])
            await caller.wait(0.1)

        await unchecked_visit(house, script)
        await unchecked_visit(house, script, "s3")

    play(main)
    assert tokens and tokens[0] not in caplog.text


def test_parking_is_bounded() -> None:
    """The oldest goes."""

    async def main() -> None:
        resumption = Resumption(ParkingSettings(most=2))
        seats = [resumption.begin(f"s{n}", "me") for n in range(3)]
        for seat in seats:
            seat.leave(KEPT)
        with pytest.raises(ResumeUnknown):
            await resumption.redeem(seats[0].token, "me")
        assert (await resumption.redeem(seats[1].token, "me")).kept is KEPT
        resumption.close()

    virtual.run(main())


def test_a_drain_with_a_deadline_ends_what_runs_and_tells_so() -> None:
    """A reply that is longer than the grace: interrupted, its verdict told, then 1012. And `draining` holds no
    token that nobody will know."""
    config = Config(limits=LimitsConfig(idle_s=60.0))

    async def main() -> None:
        long = msgspec.structs.replace(CONFIG, reply="word " * 200)
        async with open_house(engines(long), config) as house:
            services = house.services

            async def script(caller: Caller) -> None:
                await caller.start(resume=True)
                await caller.send(wire.InputText("Talk."))
                await caller.pause_until(wire.AudioFrame)
                services.draining.set()
                await caller.wait(2.0)
                assert caller.closed is None, "it is given its time"
                services.ending.set()
                await caller.gone()

            caller = await visit(house, script)
        assert caller.closed is not None and caller.closed.code == 1012
        assert caller.of(wire.Draining)[0].resume is None
        assert len(caller.verdicts) == len(caller.of(wire.ReplyInterrupted)) == 1
        house.services.resumption.close()

    virtual.run(main())
