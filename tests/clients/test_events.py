"""What becomes of a connection is told beside the server's messages, and by the same way."""

from __future__ import annotations

from typing import get_args

import voicepipe_client
from voicepipe.wire.native import AudioFrame, TurnEnded
from voicepipe_client.events import Disconnected, Event, Reconnected


def test_a_caller_can_tell_them_all_apart() -> None:
    """The server's own and those of the connection are of different classes, and all are events."""
    assert {AudioFrame, TurnEnded, Disconnected, Reconnected} <= set(get_args(Event))


def test_they_are_public() -> None:
    assert voicepipe_client.Disconnected is Disconnected and voicepipe_client.Reconnected is Reconnected
