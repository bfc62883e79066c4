"""Configuration is checked where it is made, and a wrong key is named."""

from __future__ import annotations

import pytest

from voicepipe.config import Config, parse_config
from voicepipe.errors import ConfigError


def test_nothing_set_is_the_default() -> None:
    """An empty file is a valid one."""
    assert parse_config({}) == Config()


def test_values_land_in_their_tables() -> None:
    """As TOML gives them: lists and nested tables."""
    config = parse_config(
        {"port": 9000, "origins": ["https://a.example"], "engines": {"scripted": {"transcripts": ["Hi."]}}}
    )
    assert (config.port, config.origins) == (9000, ("https://a.example",))
    assert config.engines.scripted.transcripts == ("Hi.",)


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"prot": 1}, "prot", "unknown key `prot`; did you mean `port`?"),
        ({"engines": {"lllm": "x"}}, "engines.lllm", "unknown key `lllm` in [engines]; did you mean `llm`?"),
        (
            {"engines": {"scripted": {"replies": "x"}}},
            "engines.scripted.replies",
            "unknown key `replies` in [engines.scripted]; did you mean `reply`?",
        ),
        ({"max_sessions": 1}, "max_sessions", "unknown key `max_sessions`; it belongs in [limits]"),
        ({"limits": {"port": 1}}, "limits.port", "unknown key `port` in [limits]; it belongs above all tables"),
        ({"zzz": 1}, "zzz", "unknown key `zzz`; known are host, port"),
        ({"a` - at `$.b": 1}, "a` - at `$.b", "unknown key `a` - at `$.b`; known are"),
        ({"engines": {"scripted": {"transcripts": []}}}, "engines.scripted.transcripts", ">= 1"),
        ({"port": 70_000}, "port", "65535"),
        ({"port": "80"}, "port", "int"),
        ({"budget_ms": 0}, "budget_ms", ">= 1"),
        ({"budget_ms": 1e-300}, "budget_ms", ">= 1"),
        ({"budget_ms": 60_001}, "budget_ms", "<= 60000"),
        ({"limits": {"max_sessions": 0}}, "limits.max_sessions", ">= 1"),
        ({"operating_point": "faster"}, "operating_point", "faster"),
        ({"engines": {"kind": 3}}, "engines.kind", "str"),
    ],
)
def test_a_wrong_value_names_field_and_limit(values: dict[str, object], field: str | None, says: str) -> None:
    """The dotted key is in `field`, what is wrong in the text."""
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert caught.value.field == field
    assert says in caught.value.message
    assert caught.value.exit_status == 2
