"""A server's secrets, from the environment and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from voicepipe.commands.secrets import read_api_key, read_metrics_token, read_tokens, read_twilio_token
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


URL = {"llm": "http://127.0.0.1:8000/v1", "llm_model": "m"}


def test_the_environment_goes_before_the_file_and_that_before_none(tmp_path: Path) -> None:
    """For the key of an endpoint as for the token of /metrics. A file that is not needed is not looked at."""
    (tmp_path / "key").write_text(" from-a-file\n")
    filed = parse_config(
        {"metrics_token_file": str(tmp_path / "key"), "engines": {**URL, "llm_api_key_file": str(tmp_path / "key")}}
    )
    environ = {"VOICEPIPE_METRICS_TOKEN": "from-here", "VOICEPIPE_LLM_API_KEY": "from-there"}
    assert (read_metrics_token(filed, environ), read_api_key(filed, environ)) == ("from-here", "from-there")
    assert (read_metrics_token(filed, {}), read_api_key(filed, {})) == ("from-a-file", "from-a-file")
    (tmp_path / "key").unlink()
    assert (read_metrics_token(filed, environ), read_api_key(filed, environ)) == ("from-here", "from-there")
    assert (read_metrics_token(parse_config({}), {}), read_api_key(parse_config({}), {})) == ("", None)


def test_a_secret_that_cannot_be_read_is_named_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ConfigError, match="holds no token") as caught:
        read_metrics_token(parse_config({"metrics_token_file": str(tmp_path / "empty")}), {})
    assert caught.value.field == "metrics_token_file"
    with pytest.raises(ConfigError) as caught:
        read_api_key(parse_config({"engines": URL}), {"VOICEPIPE_LLM_API_KEY": "s3cret s3cret"})
    assert "VOICEPIPE_LLM_API_KEY" in caught.value.message and "s3cret" not in caught.value.message


def test_a_token_for_what_everybody_may_read_is_a_contradiction() -> None:
    with pytest.raises(ConfigError, match="take one out"):
        read_metrics_token(parse_config({"metrics_public": True}), {"VOICEPIPE_METRICS_TOKEN": "s3cret"})


def test_twilios_auth_token_is_read_like_the_others(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(" from-a-file\n")
    filed = parse_config({"twilio": {"auth_token_file": str(tmp_path / "key")}})
    environ = {"VOICEPIPE_TWILIO_AUTH_TOKEN": "from-here"}
    assert [read_twilio_token(filed, environ), read_twilio_token(filed, {})] == ["from-here", "from-a-file"]
    assert read_twilio_token(parse_config({}), {}) == ""
    with pytest.raises(ConfigError, match="white space") as caught:
        read_twilio_token(filed, {"VOICEPIPE_TWILIO_AUTH_TOKEN": "s3 cret"})
    assert caught.value.field == "twilio.auth_token_file" and "s3" not in caught.value.message
