"""The comparison itself: what it compares, and that both sides are asked the same."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import fidelity
import numpy as np
import pytest
from arrivals import Call, Habits, Question, arrivals

from tests import virtual
from voicepipe.wire.native import decode_client

CALL = Call(2.0, 6.0, (Question(2.5, 3.505), Question(4.0, 5.0)))


def test_a_stream_is_sent_all_the_time_and_is_loud_where_somebody_speaks() -> None:
    """To the sample; each packet when it is complete."""
    sent: list[tuple[float, bytes]] = []

    async def main() -> None:
        clock = asyncio.get_running_loop().time
        began = clock() - 1.0

        async def send(data: str | bytes) -> None:
            if isinstance(data, bytes):
                sent.append((clock() - began, data))

        await fidelity.stream(send, CALL, began, fidelity.noise)

    virtual.run(main())
    assert len(sent) == 200
    assert [round(at, 6) for at, _ in sent[:2]] == [2.02, 2.04] and round(sent[-1][0], 6) == 6.0
    frames = [decode_client(data) for _, data in sent]
    offsets = [frame.offset_samples for frame in frames]  # type: ignore[union-attr]
    assert {after - before for before, after in pairwise(offsets)} == {320}
    sound = np.frombuffer(b"".join(frame.pcm for frame in frames), "<i2")  # type: ignore[union-attr]
    loud = np.flatnonzero(np.abs(sound) > 300)
    assert abs(loud[0] - 8_000) < 8 and abs(loud[-1] - 47_999) < 8
    assert not sound[24_080:32_000].any() and np.abs(sound[24_040:24_080]).max() > 300


def test_the_simulator_is_asked_the_same() -> None:
    calls = arrivals(4.0, 60.0, Habits(), 1)
    asked = fidelity.as_simulated(calls)
    assert [(call.at, call.end) for call in asked] == [(call.at, call.end) for call in calls]
    for call, ours in zip(calls, asked, strict=True):
        assert [(q.begin, q.end) for q in call.questions] == [(said.begin, said.end) for said in ours.said]
        assert [" ".join(said.words) + said.mark for said in ours.said] == list(
            fidelity.TRANSCRIPTS[: len(ours.said)]
        )


def test_a_ratio_stands_with_its_interval() -> None:
    """Sessions are drawn anew, and with them all of their gaps."""
    theirs = {call: [100.0 + 10 * call + turn for turn in range(5)] for call in range(20)}
    same = fidelity.compare(theirs, theirs, 0.5)
    assert same.ratio == 1.0 and same.low < 1.0 < same.high and same.real_ms == pytest.approx(197.0, abs=2.0)
    longer = fidelity.compare({call: [1.2 * gap for gap in gaps] for call, gaps in theirs.items()}, theirs, 0.95)
    assert longer.ratio == pytest.approx(1.2) and longer.low > 1.0


def test_the_same_words_have_the_same_reply() -> None:
    own = fidelity.Reply("call 1 question 2")
    first, second = (fidelity.various("What now?", own, whole=whole) for whole in (True, False))
    assert first == second and len(first.text.split()) == 5
    assert fidelity.various("And now?", own, whole=True) != first
