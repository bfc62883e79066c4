"""What no single option can tell: values that contradict each other, or that do not do what one may expect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_network
from urllib.parse import urlsplit, urlunsplit

import msgspec

from voicepipe.config.options import API_TEXT_SLOTS, AdmissionConfig, Config, EnginesConfig
from voicepipe.errors import ConfigError

_PUBLIC_URL = re.compile(r"wss?://[^/?#@\s]+(/[^?#@\s]*)?")
_ORIGIN = re.compile(r"https?://[^/?#@\s]+")


def contradictions(config: Config) -> Iterator[tuple[str, str]]:
    """Key with its option, and what is wrong with its value, alone or beside another's."""
    yield from _llm_url(config.engines.llm)
    for name, token in config.tokens.items():
        if bool(token.env) is bool(token.file):
            yield f"tokens.{name}", "either `env` or `file` says where the token is"
    if len(set(config.acknowledge.texts)) < len(config.acknowledge.texts):
        yield "acknowledge.texts", "the same text twice; none is to be heard twice in a row"
    if len(set(config.filler.texts)) < len(config.filler.texts):
        yield "filler.texts", "the same text twice; none is to be heard twice in a row"
    if len(set(config.ladder)) < len(config.ladder):
        yield "ladder", "the same rung twice"
    yield from _engines(config.engines)
    yield from _doors(config)
    yield from _files(config)
    pool, admission = config.admission.kv_pool_tokens, config.admission
    if 0 < pool < admission.prompt_tokens + admission.thinking_tokens + config.max_reply_tokens:
        text = "less than one session needs: prompt_tokens, thinking_tokens and max_reply_tokens together"
        yield "admission.kv_pool_tokens", text


def remarks(config: Config) -> Iterator[str]:
    """What is allowed, and will not do what one may expect of it; a sentence each."""
    limits, admission = config.limits, config.admission
    if limits.max_sessions > limits.max_connections:
        yield (
            f"limits.max_sessions is {limits.max_sessions}, and no more than the {limits.max_connections} "
            "of limits.max_connections can be reached"
        )
    if config.operating_point != "fast" and config.budget_ms < 400:
        yield (
            f"operating_point {config.operating_point} waits longer than the budget of {config.budget_ms:g} ms "
            "in most pauses: most turns will be late"
        )
    for rung, table in (("acknowledge", config.acknowledge), ("filler", config.filler)):
        if rung in config.ladder and config.enforcement == "observe":
            yield f"ladder names {rung}, and enforcement observe takes no rung"
        if table != type(table)() and rung not in config.ladder:
            yield f"[{rung}] is set, and ladder does not name {rung}: nothing of it is heard"
    if admission.policy != "token-bucket" and _differs(admission, "sessions_per_minute", "burst"):
        yield f"admission.sessions_per_minute and burst are for token-bucket, and the policy is {admission.policy}"
    if admission.waiting_places == 0 and _differs(admission, "waiting_s"):
        yield "admission.waiting_s is set, and there are no waiting_places"


def without_secrets(config: Config) -> Config:
    """As it may be shown: what a URL holds beside scheme, host and path may be a password or a key."""
    llm = config.engines.llm
    if "://" not in llm:
        return config
    parts = urlsplit(llm)
    host = parts.netloc.rpartition("@")[2]
    place = f"***@{host}" if "@" in parts.netloc else host
    shown = urlunsplit((parts.scheme, place, parts.path, "***" if parts.query else "", ""))
    return msgspec.structs.replace(config, engines=msgspec.structs.replace(config.engines, llm=shown))


def with_text_slots(config: Config) -> Config:
    """An API needs some. Raises ConfigError where there can be none."""
    engines = config.engines
    if config.api_port is None:
        return config
    if engines.kind == "default" and "://" in engines.llm:
        text = "api_port (--api-port): the model is behind a URL, which serves texts itself"
        raise ConfigError(text, field="api_port")
    if engines.text_slots:
        return config
    return msgspec.structs.replace(config, engines=msgspec.structs.replace(engines, text_slots=API_TEXT_SLOTS))


def _differs(admission: AdmissionConfig, *names: str) -> bool:
    default = AdmissionConfig()
    return any(getattr(admission, name) != getattr(default, name) for name in names)


def _doors(config: Config) -> Iterator[tuple[str, str]]:
    if config.api_port and config.api_port == config.port:
        yield "api_port (--api-port)", "the same as port (--port); each needs its own"
    for index, origin in enumerate(config.origins):
        if not _ORIGIN.fullmatch(origin):
            text = "expected scheme and host, such as https://voice.example: no path, no / at its end"
            yield f"origins[{index}]", text
    if bool(config.tls_cert) is not bool(config.tls_key):
        given, missing = ("cert", "key") if config.tls_cert else ("key", "cert")
        yield f"tls_{missing} (--tls-{missing})", f"tls_{given} is given, and TLS needs both"
    for index, proxy in enumerate(config.trusted_proxies):
        if not _is_network(proxy):
            yield f"trusted_proxies[{index}]", "expected an address, or a network such as 10.0.0.0/8"
    if config.twilio.public_url and not _PUBLIC_URL.fullmatch(config.twilio.public_url):
        yield "twilio.public_url", "expected scheme and host, such as wss://voice.example, and no query"
    if config.metrics_public and config.metrics_token_file:
        yield "metrics_public", "everybody may read /metrics, and metrics_token_file asks for a token; take one out"


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _files(config: Config) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for name in ("ledger", "trace", "record"):
        path = getattr(config.files, name)
        if path and (other := seen.setdefault(path, name)) != name:
            yield f"files.{name} (--{name})", f"the same file as files.{other} (--{other})"


def _engines(engines: EnginesConfig) -> Iterator[tuple[str, str]]:
    """An option that nobody would look at is refused like a wrong one."""
    if engines.asr_second and engines.asr_second == engines.asr:
        text = "the same recogniser as engines.asr (--asr) would hear the same again; name a larger one, or none"
        yield "engines.asr_second (--asr-second)", text
    if "://" in engines.llm:
        if not engines.llm_model:
            text = "engines.llm (--llm) is a URL, and needs the model's name there; GET .../v1/models lists them"
            yield "engines.llm_model (--llm-model)", text
        if engines.llm_small_model and engines.llm_small_model == engines.llm_model:
            text = "the same as engines.llm_model (--llm-model), so that nothing is faster; name another, or none"
            yield "engines.llm_small_model", text
        return
    for name, value in {
        "engines.llm_model (--llm-model)": engines.llm_model,
        "engines.llm_small_model": engines.llm_small_model,
        "engines.llm_api_key_file": engines.llm_api_key_file,
    }.items():
        if value:
            yield name, "is for an endpoint, and engines.llm (--llm) is no URL; give the URL, or leave it out"


def _llm_url(spec: str) -> Iterator[tuple[str, str]]:
    """The form of a URL; whatever else it names is for those who can look. The text repeats nothing of it: a URL
    may hold a password."""
    wrong = _url_fault(spec) if "://" in spec else None
    if wrong is not None:
        yield "engines.llm (--llm)", f"{wrong}; expected a URL like http://127.0.0.1:8000/v1"


def _url_fault(url: str) -> str | None:
    if not url.startswith(("http://", "https://")):
        return "neither http:// nor https://"
    if any(char.isspace() or not char.isprintable() for char in url):
        return "a URL holds no white space"
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
    except ValueError:
        return "the host cannot be read"
    if not parts.hostname:
        return "the URL names no host"
    try:
        port = parts.port
    except ValueError:
        port = 0
    return "the port is no number from 1 to 65535" if port == 0 else None
