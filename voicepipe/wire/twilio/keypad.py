"""Keys that the caller presses, put together to what was meant: up to `#`, or until no more are pressed."""

from __future__ import annotations

from typing import Final

PAUSE_SAMPLES: Final = 16_000
"""Of sound after the last key, at 8 kHz: two seconds, on the caller's own clock."""
MAX_KEYS: Final = 32
END: Final = "#"


class Keypad:
    def __init__(self) -> None:
        self._keys = ""
        self._pressed_at = 0

    @property
    def is_empty(self) -> bool:
        return not self._keys

    def press(self, key: str, at_samples: int) -> str | None:
        """The entry that this completes. `#` ends one and is no part of it, unless it stands alone."""
        if key != END or self.is_empty:
            self._keys += key
            self._pressed_at = at_samples
        return self._take() if key == END or len(self._keys) >= MAX_KEYS else None

    def hear(self, at_samples: int) -> str | None:
        """So much sound has come in: the entry that the pause completes."""
        waits = self.is_empty or at_samples - self._pressed_at < PAUSE_SAMPLES
        return None if waits else self._take()

    def _take(self) -> str:
        keys, self._keys = self._keys, ""
        return keys
