"""What options say only together."""

from __future__ import annotations

import pytest

from voicepipe.config import Config, parse_config
from voicepipe.config.checks import remarks, without_secrets
from voicepipe.errors import ConfigError

URL = "https://user:hush@host.example:8000/v1?key=s3cret"


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"port": 9000, "api_port": 9000}, "api_port", "the same as port (--port)"),
        ({"origins": ["https://a.example", "https://a.example/"]}, "origins[1]", "no / at its end"),
        ({"origins": ["a.example"]}, "origins[0]", "scheme and host"),
        ({"files": {"ledger": "x", "record": "x"}}, "files.record", "the same file as files.ledger (--ledger)"),
        ({"metrics_public": True, "metrics_token_file": "t"}, "metrics_public", "take one out"),
        ({"twilio": {"public_url": "https://voice.example"}}, "twilio.public_url", "wss://voice.example"),
        ({"twilio": {"public_url": "wss://voice.example?x=1"}}, "twilio.public_url", "no query"),
        ({"engines": {"llm_api_key_file": "k"}}, "engines.llm_api_key_file", "is for an endpoint"),
    ],
)
def test_a_contradiction_names_its_key(values: dict[str, object], field: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert caught.value.field == field and says in caught.value.message


@pytest.mark.parametrize("port", [0, None])
def test_two_doors_may_both_take_any_port(port: int | None) -> None:
    """0 is no number that could be the same."""
    values = {"port": 0} | ({} if port is None else {"api_port": port})
    assert parse_config(values).port == 0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"limits": {"max_sessions": 300}}, "no more than the 256 of limits.max_connections"),
        ({"operating_point": "safe"}, "most turns will be late"),
        ({"ladder": ["acknowledge"], "enforcement": "observe"}, "takes no rung"),
        ({"acknowledge": {"one_in": 2}}, "does not name acknowledge"),
        ({"admission": {"burst": 9}}, "are for token-bucket, and the policy is deadline"),
        ({"admission": {"waiting_s": 9.0}}, "there are no waiting_places"),
    ],
)
def test_what_will_not_do_what_one_may_expect_is_remarked(values: dict[str, object], says: str) -> None:
    """It is allowed all the same."""
    (remark,) = remarks(parse_config(values))
    assert says in remark


def test_there_is_nothing_to_remark_about_the_defaults() -> None:
    assert list(remarks(Config())) == []
    assert list(remarks(parse_config({"operating_point": "safe", "budget_ms": 2000}))) == []


def test_what_a_url_may_hide_is_not_shown() -> None:
    """Whoever it names, and what is asked of it."""
    config = parse_config({"engines": {"llm": URL, "llm_model": "m"}})
    assert without_secrets(config).engines.llm == "https://***@host.example:8000/v1?***"
    plain = parse_config({"engines": {"llm": "http://127.0.0.1:8000/v1", "llm_model": "m"}})
    assert without_secrets(plain) == plain and without_secrets(Config()) == Config()
