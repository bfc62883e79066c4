"""Every command that concerns the client has its message; what concerns the device has none."""

from __future__ import annotations

from typing import get_args

import pytest

from voicepipe.announce import to_wire
from voicepipe.core import events as core
from voicepipe.wire import messages as wire
from voicepipe.wire.native import decode_server, encode_server

WORK = core.Work(1, "s", 1, 2, 0, core.WorkKind.THINK, core.WorkClass.STARTED)
SHARES = {stage: core.Share(0.001 * n, 0.01) for n, stage in enumerate(core.Stage)}


def record(**changes: object) -> core.TurnRecord:
    values: dict[str, object] = {
        "turn": 3,
        "verdict": core.Verdict.MISSED,
        "felt_estimate_s": 0.3004567,
        "system_s": 0.05,
        "stages": SHARES,
        "speculation": core.Speculation(True, 2, 0.0401, 0.01),
        "blame": core.Blame(core.Stage.LLM, "wait", 0.1),
    }
    return core.TurnRecord(**(values | changes))  # type: ignore[arg-type]


PAIRS: list[tuple[core.TurnCommand, wire.ServerMessage | wire.AudioFrame | None]] = [
    (core.SpeechStarted(1), wire.SpeechStarted(turn=1)),
    (core.PartialTranscript(1, "a", "b"), wire.TranscriptPartial(turn=1, stable="a", tentative="b")),
    (core.FinalTranscript(1, "a b"), wire.TranscriptFinal(turn=1, text="a b")),
    (core.Corrected(1, "a c"), wire.TranscriptFinal(turn=1, text="a c")),
    (core.Acknowledged(1, 2, 480), wire.ReplyAcknowledged(turn=1, epoch=2, samples=480)),
    (core.Committed(1, 2), wire.TurnCommitted(turn=1, epoch=2)),
    (core.Reopened(1, 3), wire.TurnReopened(turn=1, epoch=3)),
    (core.ReplyText(1, 2, " x"), wire.ReplyText(turn=1, epoch=2, text=" x")),
    (core.ReplyText(1, 2, "x", spoken=False), wire.ReplyText(turn=1, epoch=2, text="x", spoken=False)),
    (
        core.ToolCalled(1, 2, core.Call("call_1", "weather", "{}")),
        wire.ToolCall(turn=1, epoch=2, call_id="call_1", name="weather", arguments="{}"),
    ),
    (core.ReplyAudio(2, 480, b"\1\2"), wire.AudioFrame(epoch=2, offset_samples=480, pcm=b"\1\2")),
    (core.ReplyDone(1, 2, 960), wire.ReplyDone(turn=1, epoch=2, samples=960)),
    (core.ReplyInterrupted(1, 2, 250), wire.ReplyInterrupted(turn=1, epoch=2, heard_ms=250)),
    (
        core.TurnFailed(1, "engine_timeout", core.Stage.TTS),
        wire.Error(code="engine_timeout", message="turn 1 failed at the tts stage"),
    ),
    (core.Submit(WORK), None),
    (core.Retire(1, 0), None),
    (core.Promote(1), None),
    (core.Withdraw(WORK), None),
]


@pytest.mark.parametrize(("command", "message"), PAIRS, ids=lambda value: type(value).__name__)
def test_a_command_becomes_its_message(
    command: core.TurnCommand, message: wire.ServerMessage | wire.AudioFrame | None
) -> None:
    """Field by field, and fit for the wire."""
    assert to_wire(command) == message
    if message is not None:
        assert decode_server(encode_server(message)) == message


def test_every_command_is_accounted_for() -> None:
    """A new one cannot be forgotten here."""
    covered = {type(command) for command, _ in PAIRS} | {core.TurnEnded}
    assert covered == set(get_args(core.TurnCommand))


def test_a_record_becomes_milliseconds() -> None:
    """Rounded to hundredths; stages, speculation and blame by their names on the wire."""
    ended = to_wire(core.TurnEnded(record()))
    assert isinstance(ended, wire.TurnEnded)
    assert (ended.turn, ended.verdict, ended.felt_estimate_ms, ended.system_ms) == (3, "missed", 300.46, 50.0)
    assert ended.stages.endpoint == wire.StageTimes(wait_ms=0.0, service_ms=10.0)
    assert ended.stages.send == wire.StageTimes(wait_ms=4.0, service_ms=10.0)
    assert ended.speculation == wire.Speculation(hit=True, attempts=2, saved_ms=40.1, wasted_ms=10.0)
    assert ended.blame == wire.Blame(stage="llm", kind="wait", ms=100.0)
    assert decode_server(encode_server(ended)) == ended


def test_a_record_without_content_has_no_gap() -> None:
    """Nor anybody to blame."""
    ended = to_wire(core.TurnEnded(record(felt_estimate_s=None, system_s=None, blame=None)))
    assert isinstance(ended, wire.TurnEnded)
    assert (ended.felt_estimate_ms, ended.system_ms, ended.blame) == (None, None, None)


@pytest.mark.parametrize("verdict", core.Verdict)
def test_every_verdict_is_known_to_the_wire(verdict: core.Verdict) -> None:
    """The client's decoder accepts each."""
    message = to_wire(core.TurnEnded(record(verdict=verdict, reason=core.RefusedFor.LATE_COMMIT)))
    assert isinstance(message, wire.TurnEnded) and message.reason == "late-commit"
    assert decode_server(encode_server(message)) == message
