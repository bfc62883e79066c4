"""What a session sends: bounded, in order, nothing of an old epoch, and told when sound goes out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from tests import virtual
from voicepipe.connection import ConnectionClosed, MemoryConnection
from voicepipe.errors import SessionLimit
from voicepipe.outbox import FRAMES, Outbox
from voicepipe.wire import messages as wire
from voicepipe.wire.dialect import Dialect
from voicepipe.wire.native import NativeDialect, decode_server


class Box:
    """An outbox, the client's end, and what was told, in order."""

    def __init__(self, capacity: int = 64, dialect: Dialect | None = None) -> None:
        ours, self.client = MemoryConnection.pair(capacity=capacity)
        self.epoch = 1
        self.told: list[tuple[str, int]] = []
        self.outbox = Outbox(
            ours,
            (dialect or NativeDialect()).tell,
            timeout_s=5.0,
            epoch=lambda: self.epoch,
            sent=lambda epoch: self.told.append(("sent", epoch)),
            acknowledged=lambda epoch: self.told.append(("acknowledged", epoch)),
            stale=lambda samples: self.told.append(("stale", samples)),
        )

    def sound(self, epoch: int, offset: int, samples: int = 20) -> None:
        self.outbox.put(wire.AudioFrame(epoch, offset, b"\x01\x00" * samples))

    async def taken(self) -> wire.ServerMessage | wire.AudioFrame:
        return decode_server(await self.client.recv())


def story(script: Callable[[Box], Awaitable[None]], *, capacity: int = 64, dialect: Dialect | None = None) -> Box:
    async def main() -> Box:
        box = Box(capacity, dialect)
        writer = asyncio.ensure_future(box.outbox.write())
        await script(box)
        writer.cancel()
        return box

    return virtual.run(main())


def test_what_is_put_in_comes_out_in_order() -> None:
    async def script(box: Box) -> None:
        box.outbox.put(wire.ReplyText(1, 1, "Hi."))
        box.sound(1, 0)
        await box.outbox.emptied()
        assert await box.taken() == wire.ReplyText(1, 1, "Hi.")
        assert await box.taken() == wire.AudioFrame(1, 0, b"\x01\x00" * 20)

    story(script)


def test_the_first_sound_of_each_reply_is_told() -> None:
    """Once, and when it was handed over; text is no sound."""

    async def script(box: Box) -> None:
        box.outbox.put(wire.ReplyText(1, 1, "Hi."))
        await box.outbox.emptied()
        assert box.told == []
        for offset in (0, 20):
            box.sound(1, offset)
        await box.outbox.emptied()
        box.epoch = 2
        box.sound(2, 0)
        await box.outbox.emptied()

    assert story(script).told == [("sent", 1), ("sent", 2)]


def test_sound_of_an_older_epoch_is_not_sent() -> None:
    """It had been put in before the turn was interrupted; text goes out all the same."""

    async def script(box: Box) -> None:
        box.sound(1, 0)
        box.outbox.put(wire.ReplyText(1, 1, "Hi."))
        box.epoch = 2
        await box.outbox.emptied()
        assert await box.taken() == wire.ReplyText(1, 1, "Hi.")

    assert story(script).told == [("stale", 20)]


def test_what_goes_before_the_content_is_told_as_such() -> None:
    """Of the 40 samples that were announced the first frame is told, the second is not, and then the content."""

    async def script(box: Box) -> None:
        box.outbox.put(wire.ReplyAcknowledged(1, 1, 40))
        for offset in (0, 20, 40):
            box.sound(1, offset)
            await box.outbox.emptied()
        assert box.told == [("acknowledged", 1), ("sent", 1)]
        box.epoch = 2
        box.sound(2, 0)  # another reply, and nothing goes before it
        await box.outbox.emptied()

    assert story(script).told[-1] == ("sent", 2)


def test_a_client_that_takes_nothing_is_let_go() -> None:
    """After the time it has for one message."""

    async def main() -> float:
        box = Box(capacity=1)
        for offset in (0, 20):
            box.sound(1, offset)
        begun = asyncio.get_running_loop().time()
        with pytest.raises(SessionLimit, match="nothing was taken for 5 s"):
            await box.outbox.write()
        return asyncio.get_running_loop().time() - begun

    assert virtual.run(main()) == pytest.approx(5.0)


def test_more_than_it_holds_ends_the_session() -> None:
    """A client that has stalled: playout never runs so far ahead."""

    async def main() -> None:
        box = Box()
        for frame in range(FRAMES):
            box.sound(1, 20 * frame)
        with pytest.raises(SessionLimit, match="what is sent is not taken"):
            box.sound(1, 20 * FRAMES)

    virtual.run(main())


def test_an_answer_of_the_dialect_goes_out_between_what_the_session_says() -> None:
    """In its order, and however many frames it has; nothing is told of it."""

    async def script(box: Box) -> None:
        box.outbox.put(wire.ReplyText(1, 1, "Hi."))
        box.outbox.answer("one", "two")
        box.outbox.answer()
        box.outbox.put(wire.MediaTime(1, 20))
        box.sound(1, 0)
        await box.outbox.emptied()
        frames = [await box.client.recv() for _ in range(4)]
        assert frames[1:3] == ["one", "two"] and isinstance(frames[3], bytes)

    assert story(script).told == [("sent", 1)]


def test_what_is_given_in_writing_is_content() -> None:
    """The first of it is told, as of sound."""

    async def script(box: Box) -> None:
        for text in ("Yes.", " No."):
            box.outbox.put(wire.ReplyText(1, 1, text, spoken=False))
        await box.outbox.emptied()

    assert story(script).told == [("sent", 1)]


def test_sound_that_a_dialect_holds_back_counts_as_sent() -> None:
    """It has gone on its way through the resampler."""

    async def main() -> Box:
        box = Box()
        box.outbox._tell = lambda told: ()
        writer = asyncio.ensure_future(box.outbox.write())
        box.sound(1, 0)
        await box.outbox.emptied()
        writer.cancel()
        return box

    assert virtual.run(main()).told == [("sent", 1)]


def test_what_was_told_before_the_end_is_handed_over_and_nothing_after_it() -> None:
    """Found by a seed: a client that typed twice and ended at once was told nothing of the first turn's verdict."""

    async def script(box: Box) -> None:
        box.outbox.put(wire.ReplyText(1, 1, "Hi."))
        await box.outbox.finish()
        box.outbox.put(wire.ReplyText(1, 1, "More."))
        await box.outbox.finish()
        assert await box.taken() == wire.ReplyText(1, 1, "Hi.")
        await box.client.close()
        with pytest.raises(ConnectionClosed):
            await box.taken()

    story(script)


def test_a_client_that_takes_nothing_does_not_hold_the_end_up() -> None:
    """For no longer than a frame may take."""

    async def main() -> None:
        box = Box(capacity=1)
        writer = asyncio.ensure_future(box.outbox.write())
        for _ in range(3):
            box.outbox.put(wire.ReplyText(1, 1, "Hi."))
        with pytest.raises(SessionLimit):
            await box.outbox.finish()
        with pytest.raises(SessionLimit):
            await writer

    virtual.run(main())


class Discreet(NativeDialect):
    """Its clients know no acknowledgements, only their sound."""

    def tell(self, told: wire.Told) -> Iterable[str | bytes]:
        return () if isinstance(told, wire.ReplyAcknowledged) else super().tell(told)


def test_an_acknowledgement_is_no_content_where_nothing_is_said_of_it_either() -> None:
    async def script(box: Box) -> None:
        box.outbox.put(wire.ReplyAcknowledged(1, 1, 40))
        for offset in (0, 20, 40):
            box.sound(1, offset)
        await box.outbox.emptied()
        assert box.told == [("acknowledged", 1), ("sent", 1)]

    story(script, dialect=Discreet())
