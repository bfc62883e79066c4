"""Which reply audio may still be heard. Sans-I/O."""

from __future__ import annotations

from voicepipe.wire.native import (
    AudioFrame,
    ReplyInterrupted,
    ServerMessage,
    TurnCommitted,
    TurnReopened,
)


class EpochGate:
    """Lets audio of the current epoch through.

    A commit opens its epoch; an interruption and a reopening close theirs, and the next audio needs
    a newer one. Audio that had been sent when its epoch was closed is still on its way here: that
    is what the gate is for.
    """

    def __init__(self) -> None:
        self._oldest = 0

    def on_message(self, message: ServerMessage) -> None:
        match message:
            case TurnCommitted(epoch=epoch):
                self._oldest = max(self._oldest, epoch)
            case TurnReopened(epoch=epoch) | ReplyInterrupted(epoch=epoch):
                self._oldest = max(self._oldest, epoch + 1)
            case _:
                pass

    def admits(self, frame: AudioFrame) -> bool:
        """Whether the frame may be played. One of a newer epoch makes all older ones stale."""
        self._oldest = max(self._oldest, frame.epoch)
        return frame.epoch == self._oldest
