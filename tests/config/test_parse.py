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
        ({"engines": {"scripted": {"completeness": []}}}, "engines.scripted.completeness", ">= 1"),
        ({"engines": {"scripted": {"completeness": [1.1]}}}, "engines.scripted.completeness[0]", "<= 1"),
        ({"engines": {"turn_modle": "x"}}, "engines.turn_modle", "did you mean `turn_model`?"),
        ({"port": 70_000}, "port", "65535"),
        ({"port": "80"}, "port", "int"),
        ({"budget_ms": 0}, "budget_ms", ">= 1"),
        ({"budget_ms": 1e-300}, "budget_ms", ">= 1"),
        ({"budget_ms": 60_001}, "budget_ms", "<= 60000"),
        ({"limits": {"max_sessions": 0}}, "limits.max_sessions", ">= 1"),
        ({"operating_point": "faster"}, "operating_point", "one of fast, balanced, safe"),
        ({"engines": {"kind": 3}}, "engines.kind", "str"),
        ({"host": ""}, "host", ">= 1"),
        ({"ladder": ["mumble"]}, "ladder[0]", "one of short-clause, no-second-pass"),
        ({"ladder": ["acknowledge", "acknowledge"]}, "ladder", "the same rung twice"),
        ({"engines": {"scripted": {"occupy": "run"}}}, "engines.scripted.occupy", "one of sleep, spin"),
        ({"admission": {"kv_pool_tokens": 100}}, "admission.kv_pool_tokens", "less than one session needs"),
        ({"acknowledge": {"texts": ["Mm-hm."]}}, "acknowledge.texts", ">= 2"),
        ({"acknowledge": {"texts": ["Mm-hm.", "Mm-hm."]}}, "acknowledge.texts", "the same text twice"),
        ({"acknowledge": {"texts": ["Mm-hm.", "a" * 41]}}, "acknowledge.texts[1]", "<= 40"),
        ({"acknowledge": {"one_in": 0}}, "acknowledge.one_in", ">= 1"),
        ({"engines": {"language": "z"}}, "engines.language", "such as de"),
        ({"engines": {"language": "DE"}}, "engines.language", "such as de"),
        ({"engines": {"language": "de-AT"}}, "engines.language", "such as de"),
        ({"engines": {"language": "german"}}, "engines.language", "such as de"),
        ({"engines": {"language": "de\n"}}, "engines.language", "such as de"),
        ({"engines": {"language": ""}}, "engines.language", "such as de"),
    ],
)
def test_a_wrong_value_names_field_and_limit(values: dict[str, object], field: str | None, says: str) -> None:
    """The dotted key is in `field`, what is wrong in the text."""
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert caught.value.field == field
    assert says in caught.value.message
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://", "names no host"),
        ("http:///v1", "names no host"),
        ("http://:8000/v1", "names no host"),
        ("http://127.0.0.1:99999/v1", "from 1 to 65535"),
        ("http://127.0.0.1:0/v1", "from 1 to 65535"),
        ("http://127.0.0.1:http/v1", "from 1 to 65535"),
        ("http://a..b/v1", "host cannot be read"),
        ("http://[::1/v1", "host cannot be read"),
        ("http://two words/v1", "white space"),
        ("http://host/v1\n", "white space"),
        ("ftp://x", "neither http:// nor https://"),
        ("ws://127.0.0.1:8000", "neither http:// nor https://"),
        ("http://user:pass@host:99999", "from 1 to 65535"),
    ],
)
def test_an_endpoint_that_is_no_url_is_refused(url: str, says: str) -> None:
    """The setting and its flag are named, the URL is not shown: it may hold a password."""
    with pytest.raises(ConfigError) as caught:
        parse_config({"engines": {"llm": url}})
    assert caught.value.field == "engines.llm"
    assert "--llm" in caught.value.message and says in caught.value.message
    assert "pass" not in caught.value.message and "99999" not in caught.value.message


@pytest.mark.parametrize(
    "spec",
    [
        "http://127.0.0.1:8000/v1",
        "https://[::1]/v1",
        "http://localhost:65535",
        "https://u:p@host.example/v1",
        "org/name",
    ],
)
def test_an_endpoint_that_may_be_one_is_taken(spec: str) -> None:
    """Whether somebody answers there is seen when it is asked."""
    model = "m" if "://" in spec else ""
    assert parse_config({"engines": {"llm": spec, "llm_model": model}}).engines.llm == spec


URL = "http://user:hush@127.0.0.1:8000/v1"


@pytest.mark.parametrize("kind", ["default", "scripted"])
@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"llm": URL}, "engines.llm_model", "(--llm-model): engines.llm (--llm) is a URL, and"),
        ({"llm_model": "m"}, "engines.llm_model", "(--llm-model): is for an endpoint"),
        ({"llm_small_model": "s"}, "engines.llm_small_model", "engines.llm (--llm) is no URL"),
        ({"llm": URL, "llm_model": "m", "llm_small_model": "m"}, "engines.llm_small_model", "name another"),
        ({"asr_second": "whisper-tiny.en"}, "engines.asr_second", "(--asr-second): the same recogniser"),
    ],
)
def test_what_nobody_would_look_at_is_refused(values: dict[str, str], kind: str, field: str, says: str) -> None:
    """Two options that belong together, or cannot be both; with the remedy, and without the URL."""
    with pytest.raises(ConfigError) as caught:
        parse_config({"engines": {"kind": kind, **values}})
    assert caught.value.field == field and says in caught.value.message
    assert "hush" not in caught.value.message
    assert any(remedy in caught.value.message for remedy in (", or none", ", or leave it out", "GET .../v1/models"))


@pytest.mark.parametrize("code", [None, "de", "yue"])
def test_language_codes(code: str | None) -> None:
    """Of two or three letters, or none to detect it."""
    values = {} if code is None else {"language": code}
    assert parse_config({"engines": values}).engines.language == code


def test_a_token_is_named_and_kept_elsewhere() -> None:
    tokens = parse_config({"tokens": {"kiosk-1": {"env": "KIOSK"}, "lobby": {"file": "/run/lobby"}}}).tokens
    assert (tokens["kiosk-1"].env, tokens["lobby"].file, tokens["lobby"].quota) == ("KIOSK", "/run/lobby", None)


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        ({"kiosk": {}}, "either `env` or `file`"),
        ({"kiosk": {"env": "A", "file": "b"}}, "either `env` or `file`"),
        ({"Kiosk": {"env": "A"}}, "small letters"),
        ({"a b": {"env": "A"}}, "small letters"),
        ({"": {"env": "A"}}, "small letters"),
        ({"kiosk": {"token": "s3cret"}}, "unknown key"),
    ],
)
def test_a_token_that_cannot_be_is_refused(tokens: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_config({"tokens": tokens})
    assert "s3cret" not in caught.value.message


def test_an_unknown_policy_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"admission": {"policy": "hope"}})
    assert caught.value.field == "admission.policy"
    assert "one of none, count, token-bucket" in caught.value.message


def test_an_api_gets_slots_for_texts() -> None:
    """Four, unless it is said how many; without an API there are none."""
    assert parse_config({}).engines.text_slots == 0
    assert parse_config({"api_port": 0}).engines.text_slots == 4
    assert parse_config({"api_port": 0, "engines": {"text_slots": 2}}).engines.text_slots == 2


def test_an_api_needs_a_model_of_its_own() -> None:
    """One behind a URL serves texts itself."""
    with pytest.raises(ConfigError) as caught:
        parse_config({"api_port": 9000, "engines": {"llm": "http://127.0.0.1:8000/v1", "llm_model": "m"}})
    assert caught.value.field == "api_port"


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        (
            {"tokens": {"kiosk": {"token": "s3cret"}}},
            "tokens.kiosk.token",
            "`token` in [tokens.kiosk]; known are env",
        ),
        ({"tokens": {"a.b": {"fil": "x"}}}, "tokens.a.b.fil", "`fil` in [tokens.a.b]; did you mean `file`?"),
        ({"tokens": {"a.b": {"env": 3}}}, "tokens.a.b.env", "Expected `str`"),
        ({"tokens": {"kiosk": {"fil": "x"}}}, "tokens.kiosk.fil", "did you mean `file`?"),
        ({"tokens": {"a": {"quota": {"session": 1}}}}, "tokens.a.quota.session", "did you mean `sessions`?"),
        ({"engine": {"kind": "x"}}, "engine", "unknown key `engine`; did you mean `engines`?"),
        ({"engines": {"scripted": {"asr_m": 1}}}, "engines.scripted.asr_m", "did you mean `asr_ms`?"),
        ({"admission": {"per_token": {"minutes": 1}}}, "admission.per_token.minutes", "did you mean `per_minute`?"),
        ({"waiting_place": 1}, "waiting_place", "did you mean `waiting_places`, in [admission]?"),
        ({"engines": {"metrics_publik": 1}}, "engines.metrics_publik", "`metrics_public`, above all tables?"),
        ({"limits": 3}, "limits", "expected a table, ["),
        ({"ladder": "short-clause"}, "ladder", "Expected a `list`"),
        ({"budget_ms": float("nan")}, "budget_ms", "a finite number"),
        (
            {"engines": {"scripted": {"completeness": [0.5, float("inf")]}}},
            "engines.scripted.completeness[1]",
            "finite",
        ),
        ({"tokens": {"good": {"env": "A"}, "bad": {"env": 3}}}, "tokens.bad.env", "Expected `str`"),
        ({"tokens": {"kiosk": 3}}, "tokens.kiosk", "expected a table, ["),
    ],
)
def test_what_stands_where_it_should_not(values: dict[str, object], field: str, says: str) -> None:
    """In tables of any depth, and where the nearest known key is in another one."""
    with pytest.raises(ConfigError) as caught:
        parse_config(values)
    assert (caught.value.field, "s3cret" in caught.value.message) == (field, False)
    assert says in caught.value.message
