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
        ({"prot": 1}, None, "prot"),
        ({"engines": {"voize": "x"}}, "engines", "voize"),
        ({"port": 70_000}, "port", "65535"),
        ({"port": "80"}, "port", "int"),
        ({"budget_ms": 0}, "budget_ms", "> 0"),
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
