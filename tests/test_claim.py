"""A claim on the device: taken, renewed before it lapses, given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests import virtual
from voicepipe.chunk import Done, Outcome
from voicepipe.claim import Claim
from voicepipe.core.events import Work, WorkClass, WorkKind
from voicepipe.core.scheduler import LAPSE_S
from voicepipe.device import Device

LANES = dict.fromkeys(WorkKind, "main")


def story(script: Callable[[Device, Claim, list[Outcome]], Awaitable[None]]) -> list[Outcome]:
    """A background chunk of another session waits behind the claim; what became of it."""
    answers: list[Outcome] = []

    async def nothing() -> str:
        return "ran"

    async def main() -> None:
        async with Device(LANES, {"main": 1}) as device:
            claim = Claim("s1", device, asyncio.get_running_loop().time)
            claim.update(0.0)
            work = Work(1, "s2", 1, 1, 0, WorkKind.SECOND_PASS, WorkClass.BACKGROUND)
            device.submit(work, nothing, blocking=False, answer=answers.append)
            await script(device, claim, answers)

    virtual.run(main())
    return answers


async def renewing(claim: Claim, seconds: float) -> None:
    """As a session does with its timer."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (at := claim.next_deadline()) is not None and at <= until:
        await asyncio.sleep(at - loop.time())
        claim.update(0.0)


def test_background_waits_as_long_as_the_claim_is_held() -> None:
    """However long that is."""

    async def script(device: Device, claim: Claim, answers: list[Outcome]) -> None:
        await renewing(claim, 10 * LAPSE_S)
        assert answers == [] and device.snapshot().reserved == 1
        claim.update(None)
        await asyncio.sleep(0.01)
        assert device.snapshot().reserved == 0 and claim.next_deadline() is None

    (answer,) = story(script)
    assert isinstance(answer, Done)


def test_a_claim_that_nobody_renews_lapses() -> None:
    """A session that has come to grief does not hold the house."""

    async def script(device: Device, claim: Claim, answers: list[Outcome]) -> None:
        await asyncio.sleep(2 * LAPSE_S)

    (answer,) = story(script)
    assert isinstance(answer, Done)


def test_renewing_early_changes_nothing() -> None:
    """It is asked after every command of a session."""

    async def script(device: Device, claim: Claim, answers: list[Outcome]) -> None:
        before = claim.next_deadline()
        await asyncio.sleep(LAPSE_S / 4)
        claim.update(0.0)
        assert claim.next_deadline() == before
        claim.update(None)
        claim.update(None)
        await asyncio.sleep(0.01)

    assert len(story(script)) == 1


def test_background_that_fits_before_the_next_chunk_runs() -> None:
    """And what does not, waits until the claim is moved or given back."""
    ran: list[int] = []

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        async with Device(LANES, {"main": 1}) as device:
            claim = Claim("s1", device, clock)
            claim.update(clock() + 0.1)
            for ident, bound_s in ((1, 0.05), (2, 0.2)):
                work = Work(ident, "s2", 1, 1, 0, WorkKind.SECOND_PASS, WorkClass.BACKGROUND, bound_s=bound_s)
                device.submit(work, lambda ident=ident: ran.append(ident), blocking=True, answer=lambda _: None)
                await asyncio.sleep(0.01)
            assert ran == [1]
            claim.update(clock() + 0.3)
            await asyncio.sleep(0.01)
            assert ran == [1, 2]
            claim.update(None)

    virtual.run(main())
