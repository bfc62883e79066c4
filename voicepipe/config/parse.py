"""Values, as a TOML file and the command line's options give them, to a `Config`; or to an error that says which
key is wrong, and what may stand there."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from voicepipe.config.checks import contradictions, with_text_slots
from voicepipe.config.describe import sections
from voicepipe.config.options import Config
from voicepipe.config.tables import NAME, dotted, kind_of, no_tables, tables, unknown_keys, words_of
from voicepipe.errors import ConfigError


def parse_config(values: Mapping[str, object]) -> Config:
    """Raises ConfigError, whose `field` is the dotted key."""
    for one in unknown_keys(values):
        where = f" in [{one.table}]" if one.table else ""
        raise ConfigError(
            f"unknown key `{one.key}`{where}{_hint(one.key, one.siblings)}", field=dotted(one.table, one.key)
        )
    for field in no_tables(values):
        raise ConfigError(f"{field}: expected a table, [{field}]", field=field)
    for field in _no_numbers(values):
        raise ConfigError(f"{field}: a finite number is expected", field=field)
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as exc:
        raise _explained(str(exc), values) from None
    for name, wrong in contradictions(config):
        raise ConfigError(f"{name}: {wrong}", field=name.partition(" ")[0])
    return with_text_slots(config)


def _hint(key: str, siblings: Sequence[str]) -> str:
    """The nearest key of the same table, else the table that knows this key, else the nearest of any."""
    home = {one.name: one.keys for one in tables()}
    if near := difflib.get_close_matches(key, siblings, n=1):
        return f"; did you mean `{near[0]}`?"
    known_in = next((name for name, keys in home.items() if key in keys), None)
    if known_in is not None:
        return f"; it belongs in [{known_in}]" if known_in else "; it belongs above all tables"
    everywhere = {other: one.name for one in tables() for other in one.options}
    if near := difflib.get_close_matches(key, everywhere, n=1, cutoff=0.75):
        name = everywhere[near[0]]
        return f"; did you mean `{near[0]}`, {f'in [{name}]' if name else 'above all tables'}?"
    return f"; known are {', '.join(siblings)}"


def _no_numbers(values: object, field: str = "") -> Iterator[str]:
    """TOML has `nan` and `inf`, which no limit holds back."""
    if isinstance(values, float) and not math.isfinite(values):
        yield field
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from _no_numbers(value, dotted(field, key))
    elif isinstance(values, list):
        for index, value in enumerate(values):
            yield from _no_numbers(value, f"{field}[{index}]")


def _explained(error: str, values: Mapping[str, object]) -> ConfigError:
    """In words that say what may stand there."""
    message, _, path = error.partition(" - at `")
    is_key, _, path = path.rpartition("$")
    field = path.strip(".`") or None
    if field is not None and "[...]" in field and not is_key:
        field = field.replace("[...]", f".{_culprit(values, error)}")
    if "matching regex" in message and is_key:  # of `TokenName`
        message = "expected a name of up to 40 small letters, digits and . _ -"
    elif "matching regex" in message:  # of `LanguageCode`
        message = "expected a code of two or three small letters, such as de"
    elif message.startswith("Invalid enum value") and field is not None:
        message = f"expected one of {', '.join(words_of(kind_of(field)))}"
    elif field is not None and (kind := _kind(field)):
        message = f"{message.replace('Expected `array`', 'Expected a `list`')}; it may be: {kind}"
    return ConfigError(f"{field or 'configuration'}: {message}", field=field)


def _kind(field: str) -> str:
    """What may stand there, in words; "" where that is no option."""
    name = field.partition("[")[0]
    if name.startswith("tokens."):
        name = dotted("tokens", NAME, name.split(".", 2)[2])
    return next((one.kind for section in sections() for one in section.options if one.key == name), "")


def _culprit(values: Mapping[str, object], error: str) -> str:
    """The name of the token that is complained about, which the complaint leaves out."""
    tokens = values["tokens"]
    assert isinstance(tokens, Mapping)
    for name, token in tokens.items():
        try:
            msgspec.convert({"tokens": {name: token}}, Config)
        except msgspec.ValidationError as exc:
            if str(exc) == error:
                return str(name)
    raise AssertionError(error)
