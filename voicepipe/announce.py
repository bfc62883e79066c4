"""What core announces, as messages of the wire."""

from __future__ import annotations

from voicepipe.core import events as core
from voicepipe.wire import messages as wire


def to_wire(command: core.TurnCommand) -> wire.ServerMessage | wire.AudioFrame | None:
    """None for what concerns the device only."""
    match command:
        case core.SpeechStarted(turn):
            return wire.SpeechStarted(turn=turn)
        case core.PartialTranscript(turn, stable, tentative):
            return wire.TranscriptPartial(turn=turn, stable=stable, tentative=tentative)
        case core.FinalTranscript(turn, text) | core.Corrected(turn, text):
            return wire.TranscriptFinal(turn=turn, text=text)
        case core.Committed(turn, epoch):
            return wire.TurnCommitted(turn=turn, epoch=epoch)
        case core.Reopened(turn, epoch):
            return wire.TurnReopened(turn=turn, epoch=epoch)
        case core.Acknowledged(turn, epoch, samples):
            return wire.ReplyAcknowledged(turn=turn, epoch=epoch, samples=samples)
        case core.ReplyText(turn, epoch, text, spoken):
            return wire.ReplyText(turn=turn, epoch=epoch, text=text, spoken=spoken)
        case core.ToolCalled(turn, epoch, call):
            return wire.ToolCall(
                turn=turn, epoch=epoch, call_id=call.call_id, name=call.name, arguments=call.arguments
            )
        case core.ReplyAudio(epoch, offset, pcm):
            return wire.AudioFrame(epoch=epoch, offset_samples=offset, pcm=pcm)
        case core.ReplyDone(turn, epoch, samples):
            return wire.ReplyDone(turn=turn, epoch=epoch, samples=samples)
        case core.ReplyInterrupted(turn, epoch, heard_ms):
            return wire.ReplyInterrupted(turn=turn, epoch=epoch, heard_ms=heard_ms)
        case core.TurnFailed(turn, code, stage):
            return wire.Error(code=code, message=f"turn {turn} failed at the {stage} stage")
        case core.TurnEnded(record):
            return _turn_ended(record)
    return None


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def _turn_ended(record: core.TurnRecord) -> wire.TurnEnded:
    felt_s, system_s, ahead, blame = (
        record.felt_estimate_s,
        record.system_s,
        record.speculation,
        record.blame,
    )
    stages = {
        stage.value: wire.StageTimes(wait_ms=_ms(share.wait_s), service_ms=_ms(share.service_s))
        for stage, share in record.stages.items()
    }
    return wire.TurnEnded(
        turn=record.turn,
        verdict=record.verdict.value,
        felt_estimate_ms=None if felt_s is None else _ms(felt_s),
        system_ms=None if system_s is None else _ms(system_s),
        stages=wire.Stages(**stages),
        speculation=wire.Speculation(
            hit=ahead.hit,
            attempts=ahead.attempts,
            saved_ms=_ms(ahead.saved_s),
            wasted_ms=_ms(ahead.wasted_s),
        ),
        blame=None if blame is None else wire.Blame(stage=blame.stage.value, kind=blame.kind, ms=_ms(blame.over_s)),
        reason=record.reason,
    )
