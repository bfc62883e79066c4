"""`voicepipe serve --check`: whether all that a server needs to start is in order, and what would be in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from voicepipe.commands.folders import check_file
from voicepipe.commands.options import files_of, pictures_of
from voicepipe.commands.ready import is_local
from voicepipe.commands.secrets import read_api_key, read_metrics_token, read_tokens, read_twilio_token
from voicepipe.config import Config
from voicepipe.config.checks import remarks, without_secrets
from voicepipe.config.environment import SERVER_TOKENS
from voicepipe.errors import ConfigError
from voicepipe.recorders import check_different

NO_TOKEN = (
    "others than this machine can reach it, and no token is configured: set "
    f"{SERVER_TOKENS}, or [tokens.NAME] in the configuration; or let everybody in with --insecure"
)
OPEN = "insecure: everybody who reaches this machine gets a session, and can use up what it has"


def check_door(config: Config, environ: Mapping[str, str]) -> None:
    """Nobody opens a server to others without having decided who may come in. Raises ConfigError."""
    if is_local(config.host) or config.insecure or _knows_callers(config, environ):
        return
    raise ConfigError(f"host (--host) is {config.host}: {NO_TOKEN}", field="host")


def _knows_callers(config: Config, environ: Mapping[str, str]) -> bool:
    return bool(read_tokens(config, environ) or read_twilio_token(config, environ))


def check(config: Config, environ: Mapping[str, str]) -> None:
    """Secrets can be read and files be written; changes nothing. Raises ConfigError."""
    read_tokens(config, environ)
    read_metrics_token(config, environ)
    read_api_key(config, environ)
    read_twilio_token(config, environ)
    pictures_of(config)
    files = files_of(config)
    check_different(files)
    for option, path in files.items():
        if path is not None:
            check_file(path, option)


def all_remarks(config: Config, environ: Mapping[str, str]) -> Iterator[str]:
    """What will not do what one may expect of it. Raises ConfigError where a secret cannot be read."""
    yield from remarks(config)
    if not is_local(config.host):
        if not _knows_callers(config, environ):
            yield OPEN
        if config.metrics_public:
            yield "metrics_public: everybody who reaches this machine may read /metrics"


def effective(config: Config) -> str:
    """As JSON, without what may be secret."""
    return msgspec.json.format(msgspec.json.encode(without_secrets(config)), indent=2).decode()
