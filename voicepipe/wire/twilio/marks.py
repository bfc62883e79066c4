"""What the caller has heard, as Twilio tells it: a mark comes back when the sound before it has been played.

A `clear` sends back all marks that are still on their way, as if their sound had been heard: those that are in
flight at a `clear` prove nothing any more, whether they come back because of it or had been played just before.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from voicepipe.errors import BadField
from voicepipe.wire.messages import Playback

EVERY_SAMPLES: Final = 800
"""Of sound between two marks, at 8 kHz: 100 ms."""
MAX_IN_FLIGHT: Final = 1024
"""Sound is sent half a second ahead at most, which is five marks. A peer that sends none back costs no more."""


class Marks:
    def __init__(self) -> None:
        self._in_flight: OrderedDict[str, Playback] = OrderedDict()
        self._cleared: OrderedDict[str, None] = OrderedDict()
        self._epoch = 0
        self._marked = 0
        """Samples of the reply of `_epoch` that have a mark behind them."""

    def after(self, epoch: int, samples: int, *, every: int = EVERY_SAMPLES) -> str | None:
        """Name of the mark that is due behind the first `samples` of a reply; None: it is too soon for one."""
        if epoch != self._epoch:
            self._epoch, self._marked = epoch, 0
        if samples - self._marked < every:
            return None
        self._marked = samples
        name = f"{epoch}:{samples}"
        self._in_flight[name] = Playback(epoch, samples)
        _bound(self._in_flight)
        return name

    def after_all(self, epoch: int, samples: int) -> str | None:
        """The same behind a whole reply; None: there is one already."""
        return self.after(epoch, samples, every=1)

    def clear(self) -> None:
        """All that was sent is thrown away."""
        self._cleared.update(dict.fromkeys(self._in_flight))
        self._in_flight.clear()
        _bound(self._cleared)

    def returned(self, name: str) -> Playback | None:
        """What has been heard by now; None: a `clear` came between. Raises BadField where no such mark is out."""
        if name in self._cleared:
            del self._cleared[name]
            return None
        if name not in self._in_flight:
            raise BadField("mark.name: none of that name is to come back", field="mark.name")
        while True:
            before, heard = self._in_flight.popitem(last=False)
            if before == name:
                return heard


def _bound(names: OrderedDict[str, Playback] | OrderedDict[str, None]) -> None:
    while len(names) > MAX_IN_FLIGHT:
        names.popitem(last=False)
