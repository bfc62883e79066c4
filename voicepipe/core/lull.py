"""Where the sound falls away: the end of a word, of a phrase, perhaps of all that was to be said.

Works on levels, one per block of 10 ms, in media time. A voice activity detector smooths over such gaps and notices
the end of speech 30 to 100 ms late; the level shows it within 20 ms, but cannot tell it from a pause between two
words. So a `Lull` decides nothing. It is the right moment to decode ahead, and, where the detector confirms it, the
instant at which speech ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from voicepipe.core.events import Lull, Swell

RATE_HZ = 16_000


@dataclass(frozen=True, slots=True)
class LullSettings:
    block_samples: int = 160
    hold_s: float = 0.02
    """Quiet for so long is a lull. On read questions 20 ms at 30 dB fire about once a second, at 25 dB twice."""
    depth_db: float = 30.0
    """So far below the recent peak is quiet..."""
    above_floor_db: float = 9.0
    """...and so is whatever is hardly above the background."""
    peak_fall_db_s: float = 5.0
    floor_rise_db_s: float = 6.0
    silence_db: float = -60.0
    """Nothing below this is sound: the noise of a microphone that nobody speaks into."""
    audible_db: float = -50.0
    """What is above this, and above the background, is heard: a loud voice fades for 10 or 20 ms after it has
    fallen by `depth_db`."""


@dataclass(frozen=True, slots=True)
class LullSnapshot:
    quiet_from: int | None
    """First sample of the quiet that lasts up to now; None while there is sound."""
    faded_from: int | None
    """From where on nothing at all was heard in it; None while there still is."""


class LullTracker:
    def __init__(self, settings: LullSettings | None = None) -> None:
        self._settings = settings or LullSettings()
        self._peak_db = self._settings.silence_db
        self._floor_db = self._settings.silence_db
        self._falling_since: int | None = None
        self._quiet_from: int | None = 0
        self._faded_from: int | None = 0

    def on_level(self, level_db: float, start: int) -> list[Lull | Swell]:
        """Level of the block at media position `start`, in dBFS. Blocks are consecutive."""
        settings = self._settings
        block_s = settings.block_samples / RATE_HZ
        self._peak_db = max(level_db, self._peak_db - settings.peak_fall_db_s * block_s, settings.silence_db)
        self._floor_db = min(level_db, self._floor_db + settings.floor_rise_db_s * block_s)
        if level_db >= self._faded_db():
            self._faded_from = None
        elif self._faded_from is None:
            self._faded_from = start
        if level_db >= self._threshold_db():
            self._falling_since = None
            if self._quiet_from is None:
                return []
            self._quiet_from = None
            return [Swell(start)]
        if self._falling_since is None:
            self._falling_since = start
        end = start + settings.block_samples
        if self._quiet_from is not None or end - self._falling_since < settings.hold_s * RATE_HZ:
            return []
        self._quiet_from = self._falling_since
        return [Lull(self._quiet_from, end)]

    def snapshot(self) -> LullSnapshot:
        return LullSnapshot(self._quiet_from, self._faded_from)

    def _threshold_db(self) -> float:
        settings = self._settings
        return max(settings.silence_db, self._peak_db - settings.depth_db, self._floor_db + settings.above_floor_db)

    def _faded_db(self) -> float:
        settings = self._settings
        audible_db = max(settings.silence_db, settings.audible_db, self._floor_db + settings.above_floor_db)
        return min(audible_db, self._threshold_db())
