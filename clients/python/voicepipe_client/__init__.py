"""Talk to a voicepipe server from Python.

`connect` opens a session, `stay_connected` one that comes back by itself when its connection is lost;
`Player` is the playback clock for a loudspeaker of your own; `talk` plays recordings or a microphone
through a session and records every turn.
`voicepipe_client.devices` holds microphone and loudspeaker and needs the `mic` extra.
"""

from __future__ import annotations

from voicepipe_client.backoff import Backoff
from voicepipe_client.client import Session, SessionStatistics, StartOptions, connect
from voicepipe_client.events import Disconnected, Event, Reconnected
from voicepipe_client.lasting import LastingSession, stay_connected
from voicepipe_client.opening import Timeouts
from voicepipe_client.player import Player, PlayerSnapshot
from voicepipe_client.source import Clip, ClipSource, Feed, OutFrame, Source, load_clip, make_clip
from voicepipe_client.talk import TalkReport, talk
from voicepipe_client.turns import TurnRecord, Turns, refused_summary, spread, summarise

__all__ = [
    "Backoff",
    "Clip",
    "ClipSource",
    "Disconnected",
    "Event",
    "Feed",
    "LastingSession",
    "OutFrame",
    "Player",
    "PlayerSnapshot",
    "Reconnected",
    "Session",
    "SessionStatistics",
    "Source",
    "StartOptions",
    "TalkReport",
    "Timeouts",
    "TurnRecord",
    "Turns",
    "connect",
    "load_clip",
    "make_clip",
    "refused_summary",
    "spread",
    "stay_connected",
    "summarise",
    "talk",
]
