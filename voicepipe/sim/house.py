"""What the simulated sessions of one server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from voicepipe.core.events import TurnRecord
from voicepipe.core.forecast import Forecaster
from voicepipe.core.overload import Level
from voicepipe.core.turn_state import TurnSettings
from voicepipe.sim.draws import Draws
from voicepipe.sim.ears import Ears
from voicepipe.sim.machine import Machine
from voicepipe.sim.recogniser import Recogniser
from voicepipe.sim.replies import ReplyTo
from voicepipe.sim.service import Manner, Times
from voicepipe.sim.timeline import Timeline


@dataclass(slots=True)
class House:
    timeline: Timeline
    machine: Machine
    forecaster: Forecaster
    times: Times
    draws: Draws
    settings: TurnSettings
    ears: Ears
    recogniser: Recogniser
    reply_to: ReplyTo
    level: Callable[[], Level]
    """What is given up at present, because of overload."""
    on_record: Callable[[str, TurnRecord], None]
    claims: bool
    """There is background that has to keep out of the way of what is to come."""
    leases: dict[str, int] = field(default_factory=lambda: {"session": 0, "llm": 0, "text": 0})
    """That are held."""

    @property
    def manner(self) -> Manner:
        return self.times.model.manner
