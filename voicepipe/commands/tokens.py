"""The bearer tokens of a server: from the environment, or from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from voicepipe.config import Config, TokenConfig
from voicepipe.errors import ConfigError


def read_tokens(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Each bearer token and its name. Raises ConfigError, which shows none of them."""
    given = [token for token in environ.get("VOICEPIPE_SERVER_TOKENS", "").split(",") if token]
    tokens = {token: f"token-{number}" for number, token in enumerate(dict.fromkeys(given), 1)}
    for name, where in config.tokens.items():
        token = _read_token(name, where, environ)
        if token in tokens:
            raise ConfigError(f"tokens.{name}: the same token as {tokens[token]}", field=f"tokens.{name}")
        if name in tokens.values():
            raise ConfigError(
                f"tokens.{name}: VOICEPIPE_SERVER_TOKENS has one of that name", field=f"tokens.{name}"
            )
        tokens[token] = name
    return tokens


def _read_token(name: str, where: TokenConfig, environ: Mapping[str, str]) -> str:
    field = f"tokens.{name}"
    if where.env:
        token, source = environ.get(where.env, ""), f"the environment variable {where.env}"
    else:
        try:
            token, source = Path(where.file).read_text(encoding="utf-8").strip(), where.file
        except OSError as exc:
            raise ConfigError(f"{field}: {where.file}: {exc.strerror}", field=field) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{field}: {where.file} is not text", field=field) from None
    if not token or any(char.isspace() or not char.isprintable() for char in token):
        raise ConfigError(f"{field}: {source} holds no token, or one with white space in it", field=field)
    return token
