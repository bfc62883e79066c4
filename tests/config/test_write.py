"""The written file is the defaults, and the page of the documentation is written from the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.commands.options import FLAG_OF
from voicepipe.config import Config, parse_config
from voicepipe.config.describe import sections
from voicepipe.config.write import WIDTH, as_markdown, as_toml, toml_value

PAGE = Path(__file__).parent.parent.parent / "docs" / "configuration.md"
EXAMPLE = re.compile(r"# (\[.*\]|[a-z_]+ = .*)")


def test_the_written_file_parses_to_the_defaults() -> None:
    """And says every option, those that are not set in a comment."""
    values = tomllib.loads(as_toml())
    assert parse_config(values) == Config()
    for section in sections():
        table = values
        for part in section.name.split(".") if section.name else ():
            table = table.get(part, {})
        shown = {option.name for option in section.options if option.default is not None}
        assert (not section.name.startswith("tokens") and shown <= table.keys()) or not table


def test_what_is_commented_out_is_valid_too() -> None:
    lines = [match[1] if (match := EXAMPLE.fullmatch(line)) else line for line in as_toml().splitlines()]
    config = parse_config(tomllib.loads("\n".join(lines)))
    assert config.api_port == 8766 and config.engines.language == "de"
    assert config.tokens["kiosk"].env == "KIOSK_TOKEN" and config.tokens["kiosk"].quota is not None


def test_every_option_stands_below_its_text() -> None:
    """And comments are no wider than they may be."""
    lines = as_toml().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[a-z_]+ = ", line):
            assert lines[number - 1].startswith("# "), line
        assert not line.startswith("#") or len(line) <= WIDTH or "http" in line


@given(
    st.recursive(
        st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=8,
    )
)
def test_values_are_read_as_they_were_written(value: object) -> None:
    """Whatever signs a text has, but for halves of pairs, which are no text."""
    text = toml_value(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert tomllib.loads(f"x = {text}")["x"] == value


def test_what_is_no_option_is_not_written() -> None:
    with pytest.raises(AssertionError):
        toml_value(None)


def test_the_page_of_the_documentation_is_the_one_that_is_written() -> None:
    """`voicepipe config --markdown --output docs/configuration.md --force` makes it so."""
    assert PAGE.read_text(encoding="utf-8") == as_markdown(FLAG_OF)


def test_a_row_of_the_page_says_all() -> None:
    assert (
        "| `budget_ms`; `--budget-ms` | `200.0` | number from 1 to 60,000, ms | "
        "From the end of speech to sound: the promise. A client may ask for another. |"
    ) in as_markdown(FLAG_OF)
