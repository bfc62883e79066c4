"""The configuration as a commented file, with every option at its default; and as a page of the documentation."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping

from voicepipe.config.describe import TEXT, Option, Section, sections
from voicepipe.config.environment import VARIABLES
from voicepipe.config.tables import NAME

WIDTH = 100
EXAMPLES: Mapping[str, object] = {
    "api_port": 8766,
    "engines.language": "de",
    "tokens.NAME.env": "KIOSK_TOKEN",
    "tokens.NAME.quota.sessions": 2,
    "tokens.NAME.quota.per_minute": 10,
}
"""What stands in a line that is commented out: an option that is not set, and a table that has a name."""
EXAMPLE_NAME = "kiosk"

_HEAD = (
    "Configuration of voicepipe: every option at its default.",
    "",
    "`voicepipe serve --config F.toml` reads it, and so does `voicepipe demo`. What is left out has its default. "
    "An option of the command line goes before the environment, the environment before this file, and this file "
    "before the defaults. `voicepipe serve --check --config F.toml` tells whether it is in order, and prints what "
    "would be in force.",
    "",
    "Secrets do not belong in here:",
)


def as_toml() -> str:
    """A file that parses to the defaults."""
    lines = [line for text in _HEAD for line in _comment(text)]
    for name, text in VARIABLES.items():
        lines += _comment(f"  {name}: {text}", indent="    ")
    for section in sections():
        lines += _table(section)
    return "\n".join(lines) + "\n"


def _table(section: Section) -> Iterator[str]:
    name = section.name.replace(NAME, EXAMPLE_NAME)
    is_example = NAME in section.name
    yield ""
    if name:
        yield from _comment(section.text)
        yield f"# [{name}]" if is_example else f"[{name}]"
        yield ""
    for number, option in enumerate(section.options):
        if number:
            yield ""
        yield from _option(option, commented=is_example)


def _option(option: Option, *, commented: bool) -> Iterator[str]:
    kind = "" if option.kind == TEXT else f" ({option.kind[0].upper()}{option.kind[1:]}.)"
    yield from _comment(option.text + kind)
    value = EXAMPLES.get(option.key, option.default)
    assert value is not None, f"{option.key} needs an example"
    mark = "# " if commented or option.default is None else ""
    yield f"{mark}{option.name} = {toml_value(value)}"


def toml_value(value: object) -> str:
    """One of the kinds that options have."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():  # a JSON string is a TOML string, but for one sign
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple() | list():
            return f"[{', '.join(map(toml_value, value))}]"
        case _:
            raise AssertionError(f"no option is a {type(value).__name__}")


def _comment(text: str, indent: str = "") -> Iterator[str]:
    wrapped = textwrap.wrap(text, WIDTH - 2, subsequent_indent=indent, break_on_hyphens=False) or [""]
    yield from (f"# {line}".rstrip() for line in wrapped)


def as_markdown(flags: Mapping[str, str]) -> str:
    """`flags`: of each key that has one, its option of `voicepipe serve`."""
    lines = [*_PAGE_HEAD.splitlines(), ""]
    lines += ["| variable | holds |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in VARIABLES.items()]
    for section in sections():
        lines += ["", f"## `[{section.name}]`" if section.name else "## Above all tables", "", section.text, ""]
        lines += ["| key | default | may be | means |", "|---|---|---|---|"]
        lines += [_row(option, flags) for option in section.options]
    return "\n".join(lines) + "\n"


_PAGE_HEAD = """\
# Configuration

One TOML file, with options in a few tables. `voicepipe config --output F.toml` writes it, commented, with every
option at its default; `voicepipe serve --config F.toml` reads it, and so does `voicepipe demo`. What is left out
has its default. An unknown key is refused by name, with the nearest known one.

    options of the command line  >  environment  >  file  >  defaults

`voicepipe serve --check` (with the same options) tells whether everything is in order, secrets, files and folders
included, without starting anything: the configuration that would be in force goes to stdout as JSON and holds no
secret, remarks go to stderr, and the exit status is 0, or 2 with the key and what may stand there.

Durations carry their unit in the name: `_ms`, `_s`. Names of files that do not begin with `/` count from where the
command is run.

This page is written by `voicepipe config --markdown`.

## Secrets: the environment

A secret is never in the file and never an argument, which others could read in a list of processes. It comes from
the environment, or from a file that the configuration names; where there are both, the environment holds.
"""


def _row(option: Option, flags: Mapping[str, str]) -> str:
    flag = f"; `{flags[option.key]}`" if option.key in flags else ""
    default = "not set" if option.default is None else f"`{toml_value(option.default)}`"
    return f"| `{option.name}`{flag} | {_cell(default)} | {_cell(option.kind)} | {_cell(option.text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
