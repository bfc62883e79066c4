"""Tables of a file that a person has written, read key by key: what is wrong is said with the key's dotted name,
and with what may stand there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from math import isfinite

from voicepipe.errors import ConfigError

_SHOWN = 1e300


class Table:
    """`name` is dotted, and the `field` of errors with it. Raises ConfigError on a key that is not known."""

    def __init__(self, values: object, name: str, known: Sequence[str]) -> None:
        if not isinstance(values, Mapping):
            raise ConfigError(f"{name}: expected a table with the keys {', '.join(known)}", field=name)
        self._values: Mapping[str, object] = values
        self.name = name
        for key in values:
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
                raise ConfigError(f"unknown key `{key}` in {name}; {hint}", field=f"{name}.{key}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def field(self, key: str) -> str:
        return f"{self.name}.{key}"

    def wrong(self, key: str, expected: str) -> ConfigError:
        return ConfigError(f"{self.field(key)}: expected {expected}", field=self.field(key))

    def value(self, key: str) -> object:
        """Raises ConfigError where it is missing."""
        if key not in self._values:
            raise ConfigError(f"{self.field(key)}: missing", field=self.field(key))
        return self._values[key]

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """From `low` to `high`, both included."""
        found = self.value(key) if default is None or key in self else default
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.wrong(key, f"a number from {low:g} to {high:g}")
        if not low <= found <= high:  # compared as they are: a whole number may be too large for a float
            got = f", got {found:g}" if abs(found) < _SHOWN and isfinite(found) else ""
            raise self.wrong(key, f"a number from {low:g} to {high:g}{got}")
        return float(found)

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        found = self.number(key, low, high, default)
        if found != int(found):
            raise self.wrong(key, f"a whole number from {low} to {high}, got {found:g}")
        return int(found)

    def word(self, key: str, choices: Sequence[str], default: str | None = None) -> str:
        found = self.value(key) if default is None or key in self else default
        if not isinstance(found, str) or found not in choices:
            raise self.wrong(key, f"one of {', '.join(choices)}")
        return found

    def flag(self, key: str, default: bool = False) -> bool:
        found = self._values.get(key, default)
        if not isinstance(found, bool):
            raise self.wrong(key, "true or false")
        return found

    def text(self, key: str, default: str = "") -> str:
        found = self._values.get(key, default)
        if not isinstance(found, str):
            raise self.wrong(key, "a text")
        return found
