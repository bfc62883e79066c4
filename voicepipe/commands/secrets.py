"""What must not be in a configuration nor on a command line: read from the environment, or from files that the
configuration names. No error ever shows one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from voicepipe.config import Config, TokenConfig
from voicepipe.config.environment import LLM_API_KEY, METRICS_TOKEN, SERVER_TOKENS, TWILIO_AUTH_TOKEN
from voicepipe.errors import ConfigError


def read_tokens(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Each bearer token of callers and its name. Raises ConfigError."""
    given = [token for token in environ.get(SERVER_TOKENS, "").split(",") if token]
    tokens = {token: f"token-{number}" for number, token in enumerate(dict.fromkeys(given), 1)}
    for name, where in config.tokens.items():
        token = _read_token(name, where, environ)
        if token in tokens:
            raise ConfigError(f"tokens.{name}: the same token as {tokens[token]}", field=f"tokens.{name}")
        if name in tokens.values():
            raise ConfigError(f"tokens.{name}: {SERVER_TOKENS} has one of that name", field=f"tokens.{name}")
        tokens[token] = name
    return tokens


def read_metrics_token(config: Config, environ: Mapping[str, str]) -> str:
    """What /metrics asks for; "" is nothing. Raises ConfigError."""
    token = _either("metrics_token_file", config.metrics_token_file, METRICS_TOKEN, environ)
    if token and config.metrics_public:
        text = f"metrics_public: everybody may read /metrics, and {METRICS_TOKEN} asks for a token; take one out"
        raise ConfigError(text, field="metrics_public")
    return token


def read_twilio_token(config: Config, environ: Mapping[str, str]) -> str:
    """With which Twilio signs; "" is none. Raises ConfigError."""
    return _either("twilio.auth_token_file", config.twilio.auth_token_file, TWILIO_AUTH_TOKEN, environ)


def read_api_key(config: Config, environ: Mapping[str, str]) -> str | None:
    """Of the endpoint in `engines.llm`; None is none. Raises ConfigError."""
    return _either("engines.llm_api_key_file", config.engines.llm_api_key_file, LLM_API_KEY, environ) or None


def _either(field: str, file: str, variable: str, environ: Mapping[str, str]) -> str:
    """The environment goes before the file, which is not looked at then."""
    if environ.get(variable):
        return _checked(environ[variable], field, f"the environment variable {variable}")
    return _checked(_read_file(file, field), field, file) if file else ""


def _read_token(name: str, where: TokenConfig, environ: Mapping[str, str]) -> str:
    field = f"tokens.{name}"
    if where.env:
        return _checked(environ.get(where.env, ""), field, f"the environment variable {where.env}")
    return _checked(_read_file(where.file, field), field, where.file)


def _read_file(file: str, field: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as exc:
        raise ConfigError(f"{field}: {file}: {exc.strerror}", field=field) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{field}: {file} is not text", field=field) from None


def _checked(token: str, field: str, source: str) -> str:
    if not token or any(char.isspace() or not char.isprintable() for char in token):
        raise ConfigError(f"{field}: {source} holds no token, or one with white space in it", field=field)
    return token


def shown_metrics_token(environ: Mapping[str, str]) -> str:
    """What a reader of /metrics shows; "" is nothing. Raises ConfigError."""
    return _either("token", "", METRICS_TOKEN, environ)
