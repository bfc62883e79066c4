"""The terminal's side of a conversation, against a real server with scripted engines."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from voicepipe.app import serving
from voicepipe.audio import read_wav, write_wav
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.conversation import Call, check_out, converse, load_clips, spoken_question
from voicepipe.engines.scripted import ScriptedTts
from voicepipe.engines.table import load
from voicepipe.errors import AudioFileError, ConnectionLost, NoMicrophone, ServerDrained, ServerUnreachable
from voicepipe.show import Display, JsonLines
from voicepipe.wire import native
from voicepipe_client import Event, make_clip

CONFIG = Config(
    port=0,
    engines=EnginesConfig(kind="scripted", scripted=ScriptedConfig(reply="One two three.")),
    limits=LimitsConfig(max_sessions=1, grace_s=0.5),
)


def voice() -> ScriptedTts:
    return ScriptedTts(CONFIG.engines.scripted)


async def test_the_question_is_made_once(tmp_path: Path) -> None:
    """The second call reads what the first one wrote."""
    first = await spoken_question(voice(), tmp_path, asyncio.to_thread)
    (path,) = tmp_path.glob("question-*.wav")  # noqa: ASYNC240 - nobody waits for this loop
    write_wav(path, np.full(16_000, 0.25, np.float32), 16_000)
    second = await spoken_question(voice(), tmp_path, asyncio.to_thread)
    assert len(first.samples) != len(second.samples)
    assert np.allclose(second.samples, 0.25, atol=1e-3)


@pytest.mark.parametrize("junk", [b"", b"RIFF", b"no sound", "quiet"])
async def test_a_question_that_cannot_be_heard_is_made_again(tmp_path: Path, junk: bytes | str) -> None:
    """Cut off in the middle, something else, or without a word: no reason for every later demo to fail."""
    first = await spoken_question(voice(), tmp_path, asyncio.to_thread)
    (path,) = tmp_path.glob("question-*.wav")  # noqa: ASYNC240 - nobody waits for this loop
    if isinstance(junk, bytes):
        path.write_bytes(junk)
    else:
        write_wav(path, np.zeros(16_000, np.float32), 16_000)
    second = await spoken_question(voice(), tmp_path, asyncio.to_thread)
    assert np.array_equal(second.samples, first.samples)


class Scripted:
    """A server that greets, does `then` with the connection, and counts nothing. Who comes back finds nobody."""

    def __init__(self, then: Callable[[ServerConnection], Awaitable[None]]) -> None:
        self._then = then
        self._has_gone = False

    async def __call__(self, ws: ServerConnection) -> None:
        if self._has_gone:
            ws.transport.abort()
            return
        self._has_gone = True
        await ws.recv()
        await ws.send(native.encode_server(native.SessionReady("s", "voicepipe.v1", 16_000, 200.0, None)))
        await self._then(ws)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with serve(self, "127.0.0.1", 0, subprotocols=[Subprotocol("voicepipe.v1")]) as server:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def answer_half(ws: ServerConnection) -> None:
    """A turn, and a second of reply of which 100 ms are played before the server goes."""
    while not any((await ws.recv())[8:]):
        pass
    ended = native.TurnEnded(
        1, "met", 90.0, 1.0, native.Stages(*[native.StageTimes()] * 5), native.Speculation(True, 1, 0.0, 0.0), None
    )
    for message in (native.TurnCommitted(1, 1), native.AudioFrame(1, 0, b"\0\x10" * 16_000), ended):
        await ws.send(native.encode_server(message))
    for _ in range(8):
        await ws.recv()


CLIP = make_clip("tone.wav", np.full(8_000, 0.1, np.float32), 16_000)


@pytest.mark.parametrize(("code", "reason"), [(1011, "internal error"), (1012, "drain"), (1006, "")])
async def test_a_lost_connection_leaves_summary_and_wav(tmp_path: Path, code: int, reason: str) -> None:
    """Of what there was, with the code and the reason; the error goes on to whoever prints it."""

    async def then(ws: ServerConnection) -> None:
        await answer_half(ws)
        if code == 1006:
            ws.transport.abort()
        else:
            await ws.close(code, reason)

    out, said = tmp_path / "reply.wav", io.StringIO()
    async with Scripted(then).listening() as url:
        with pytest.raises(ConnectionLost, match=str(code)):
            await converse(Call(url, out=out), [CLIP, CLIP], JsonLines(said, io.StringIO()))
    turn, last = map(json.loads, said.getvalue().splitlines())
    summary = last["summary"]
    assert (turn["turn"], summary["turns"], summary["ended"], summary["out"]) == (1, 1, "lost", str(out))
    assert summary["error"]["code"] == "connection_lost"
    assert summary["error"]["close_code"] == code
    assert reason in summary["error"]["message"]
    assert summary["unheard_clips"] == ["tone.wav"]
    reply, _ = read_wav(out, max_seconds=60)
    assert 0 < len(reply) < 16_000


async def drain(ws: ServerConnection) -> None:
    await ws.send(native.encode_server(native.Draining(5000.0)))
    await ws.close(1012, "the server goes away")


async def test_a_server_that_drains_after_the_last_answer_is_no_failure() -> None:
    """True, one line that says so, and in the summary why the talk ended."""

    async def then(ws: ServerConnection) -> None:
        await answer_half(ws)
        await drain(ws)

    said, shown = io.StringIO(), io.StringIO()
    for reporter in (JsonLines(said, io.StringIO()), Display(shown, io.StringIO())):
        async with Scripted(then).listening() as url:
            assert await converse(Call(url), [CLIP], reporter)
    summary = json.loads(said.getvalue().splitlines()[-1])["summary"]
    assert (summary["turns"], summary["open_turns"], summary["ended"]) == (1, 0, "drained")
    assert (summary["error"]["code"], summary["error"]["close_code"]) == ("server_drained", 1012)
    last = shown.getvalue().splitlines()[-1]
    assert last == "the server has gone away, as it had announced (1012); all that was said had been answered"


async def test_a_server_that_drains_before_the_last_answer_says_what_is_left() -> None:
    """A turn that it had begun, and a recording that was never said."""

    async def then(ws: ServerConnection) -> None:
        await answer_half(ws)
        await ws.send(native.encode_server(native.SpeechStarted(turn=2)))
        await drain(ws)

    said = io.StringIO()
    async with Scripted(then).listening() as url:
        with pytest.raises(ServerDrained, match="1 turn and 2 recordings left unanswered"):
            await converse(Call(url), [CLIP] * 3, JsonLines(said, io.StringIO()))
    summary = json.loads(said.getvalue().splitlines()[-1])["summary"]
    assert (summary["turns"], summary["open_turns"], summary["ended"]) == (1, 1, "drained")
    assert summary["unheard_clips"] == ["tone.wav"] * 2
    assert "left unanswered" in summary["error"]["message"]


async def test_a_cancelled_talk_leaves_summary_and_wav(tmp_path: Path) -> None:
    """As a lost one does."""
    answered = asyncio.Event()

    async def then(ws: ServerConnection) -> None:
        await answer_half(ws)
        answered.set()
        await ws.wait_closed()

    out, said = tmp_path / "reply.wav", io.StringIO()
    async with Scripted(then).listening() as url:
        talking = asyncio.ensure_future(converse(Call(url, out=out), [CLIP], JsonLines(said, io.StringIO())))
        await answered.wait()
        talking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talking
    summary = json.loads(said.getvalue().splitlines()[-1])["summary"]
    assert (summary["turns"], summary["ended"], summary["error"]) == (1, "interrupted", None)
    assert len(read_wav(out, max_seconds=60)[0]) > 0


async def test_a_talk_that_is_cancelled_in_a_turn_says_so() -> None:
    """Not that nothing was heard: the server had shown that it listened."""

    async def then(ws: ServerConnection) -> None:
        while not any((await ws.recv())[8:]):
            pass
        await ws.send(native.encode_server(native.SpeechStarted(turn=1)))
        await ws.wait_closed()

    class Seen(Display):
        def on_event(self, event: Event, now: float) -> None:
            assert event == native.SpeechStarted(turn=1)
            seen.set()

    seen, said = asyncio.Event(), io.StringIO()
    async with Scripted(then).listening() as url:
        talking = asyncio.ensure_future(converse(Call(url), [CLIP], Seen(said, io.StringIO())))
        await seen.wait()
        talking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await talking
    assert said.getvalue().splitlines()[-1] == "interrupted"
    assert "no turn" not in said.getvalue()


async def test_without_a_microphone_only_the_error_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why nothing was said."""

    class NoDevice:
        def __init__(self, rate_hz: int) -> None:
            raise NoMicrophone("no microphone can be opened")

    async def then(ws: ServerConnection) -> None:
        await ws.wait_closed()

    monkeypatch.setattr("voicepipe.conversation.Microphone", NoDevice)
    said = io.StringIO()
    async with Scripted(then).listening() as url:
        with pytest.raises(NoMicrophone):
            await converse(Call(url), [], Display(said, io.StringIO()))
    assert "no turn" not in said.getvalue()


async def test_a_server_that_hears_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """False, and the name of the recording."""
    monkeypatch.setattr("voicepipe_client.turns.GIVE_UP_S", 0.1)

    async def then(ws: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await ws.recv()

    said, complaints = io.StringIO(), io.StringIO()
    async with Scripted(then).listening() as url:
        assert not await converse(Call(url), [CLIP], JsonLines(said, complaints))
    (summary,) = map(json.loads, said.getvalue().splitlines())
    assert summary["summary"]["unheard_clips"] == ["tone.wav"]
    assert "tone.wav" in complaints.getvalue()


async def until_sound(ws: ServerConnection, *, loud: bool) -> None:
    """The next frame of sound that is as loud as that."""
    while not isinstance(data := await ws.recv(), bytes) or any(data[8:]) is not loud:
        pass


async def test_one_recording_without_a_word_among_others_is_not_overlooked() -> None:
    """A hum that the server ends as `empty`: False, although the other one was answered."""

    async def then(ws: ServerConnection) -> None:
        await answer_half(ws)
        await until_sound(ws, loud=False)
        await until_sound(ws, loud=True)
        nothing = native.Stages(*[native.StageTimes()] * 5)
        ended = native.TurnEnded(2, "empty", None, None, nothing, native.Speculation(False, 0, 0.0, 0.0), None)
        await ws.send(native.encode_server(native.SpeechStarted(turn=2)))
        await ws.send(native.encode_server(ended))
        with contextlib.suppress(ConnectionClosed):
            while True:
                await ws.recv()

    said, complaints = io.StringIO(), io.StringIO()
    hum = make_clip("hum.wav", CLIP.samples, 16_000)
    async with Scripted(then).listening() as url:
        assert not await converse(Call(url), [CLIP, hum], JsonLines(said, complaints))
    summary = json.loads(said.getvalue().splitlines()[-1])["summary"]
    assert (summary["wordless_clips"], summary["silent_clips"], summary["unheard_clips"]) == (["hum.wav"], [], [])
    assert complaints.getvalue() == (
        "voicepipe: nobody spoke in hum.wav: the server heard sound in it, and no words\n"
    )


async def test_replies_are_written_where_they_should_be(tmp_path: Path) -> None:
    """As they were played: the tone of three words."""
    out, said = tmp_path / "reply.wav", io.StringIO()
    async with serving(CONFIG, lambda: load(CONFIG.engines, None, sessions=1, api_key=None)) as served:
        clip = await spoken_question(served.engines.tts, tmp_path, served.on_thread)
        call = Call(f"ws://127.0.0.1:{served.server.port}", out=out)
        assert await converse(call, [clip], JsonLines(said, io.StringIO()))
    reply, rate_hz = read_wav(out, max_seconds=60)
    assert rate_hz == ScriptedTts.sample_rate_hz
    loud = np.abs(reply) > 0.01
    assert np.count_nonzero(loud) / rate_hz == pytest.approx(0.9, abs=0.1)
    assert str(out) in said.getvalue()


async def test_who_waits_for_a_place_is_told_so() -> None:
    """With the place in line, and again when it changes."""

    async def room(ws: ServerConnection) -> None:
        await ws.send(native.encode_server(native.Waiting(2)))
        await ws.send(native.encode_server(native.Waiting(1)))
        await ws.recv()
        await ws.send(native.encode_server(native.SessionReady("s", "voicepipe.v1", 16_000, 200.0, None)))
        await ws.close()

    out, err = io.StringIO(), io.StringIO()
    async with serve(room, "127.0.0.1", 0, subprotocols=[Subprotocol("voicepipe.v1")]) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await converse(Call(url), [CLIP], JsonLines(out, err))
    assert err.getvalue().splitlines()[:2] == [
        "voicepipe: waiting for a place: 2nd in line",
        "voicepipe: waiting for a place: 1st in line",
    ]


async def test_nobody_there_leaves_no_file(tmp_path: Path) -> None:
    """The error of the client library comes through."""
    out = tmp_path / "reply.wav"
    with pytest.raises(ServerUnreachable):
        await converse(Call("ws://127.0.0.1:9", out=out), [], JsonLines(io.StringIO(), io.StringIO()))
    assert not out.exists()


def test_clips_are_read_before_anything_else(tmp_path: Path) -> None:
    """A bad one among good ones stops the command."""
    good = tmp_path / "good.wav"
    write_wav(good, np.full(8_000, 0.1, np.float32), 8_000)
    (clip,) = load_clips([good])
    assert len(clip.samples) == 16_000
    with pytest.raises(AudioFileError):
        load_clips([good, tmp_path / "none.wav"])


def test_checking_a_place_leaves_what_is_there(tmp_path: Path) -> None:
    """A file that exists keeps its content until there is a reply; none is left where none was."""
    check_out(tmp_path / "without-suffix")
    check_out(tmp_path / "loud.WAV")
    assert list(tmp_path.iterdir()) == []
    old = tmp_path / "old.wav"
    old.write_bytes(b"kept")
    check_out(old)
    assert old.read_bytes() == b"kept"
