"""A server's tokens, from the environment and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from voicepipe.commands.tokens import read_tokens
from voicepipe.config import parse_config
from voicepipe.errors import ConfigError

pytestmark = pytest.mark.usefixtures("own_cache")


def test_tokens_have_names_and_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "lobby").write_text("from-a-file\n")
    tokens = {"kiosk": {"env": "KIOSK"}, "lobby": {"file": str(tmp_path / "lobby")}}
    environ = {"VOICEPIPE_SERVER_TOKENS": "a,,b,a", "KIOSK": "from-the-environment"}
    assert read_tokens(parse_config({"tokens": tokens}), environ) == {
        "a": "token-1",
        "b": "token-2",
        "from-the-environment": "kiosk",
        "from-a-file": "lobby",
    }


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "the environment variable KIOSK holds no token"),
        ({"KIOSK": "two words"}, "white space"),
        ({"KIOSK": "s3cret", "VOICEPIPE_SERVER_TOKENS": "s3cret"}, "the same token as token-1"),
    ],
)
def test_a_token_that_is_missing_or_ambiguous_is_told_and_not_shown(environ: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read_tokens(parse_config({"tokens": {"kiosk": {"env": "KIOSK"}}}), environ)
    assert caught.value.field == "tokens.kiosk" and "s3cret" not in caught.value.message


def test_a_token_file_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_tokens(parse_config({"tokens": {"kiosk": {"file": "/nowhere/at/all"}}}), {})
