"""The options themselves: each has its text, and a default that it may have."""

from __future__ import annotations

import msgspec
import pytest

from voicepipe.config import Config
from voicepipe.config.describe import Option, sections

OPTIONS = [option for section in sections() for option in section.options]
UNITS = ("_ms", "_s", "_tokens", "_minute", "_in")


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_every_option_is_documented(option: Option) -> None:
    """In a sentence."""
    assert len(option.text) > 10 and option.text[-1] in ".:)", option.text


def test_the_defaults_are_valid() -> None:
    """They pass the limits that hold for everybody's values."""
    assert msgspec.convert(msgspec.to_builtins(Config()), Config) == Config()


def test_durations_carry_their_unit_in_the_name() -> None:
    """A number with a part of a unit is a duration, a share, or so many times another."""
    shares = {"utilisation", "late", "completeness", "audio_rate"}
    floats = {option.name for option in OPTIONS if option.kind.startswith("number")}
    assert {name for name in floats - shares if not name.endswith(("_ms", "_s"))} == set()
