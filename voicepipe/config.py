"""What can be set, with its default and its unit. Values are checked when a config is made.

Whoever reads a file, the environment or argv is `cli`; here are only values. Unknown keys are refused
by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeGuard, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from voicepipe.errors import ConfigError

OperatingPoint = Literal["fast", "balanced", "safe"]
Enforcement = Literal["degrade", "enforce", "observe"]
Rung = Literal["short-clause", "no-second-pass", "small-model", "acknowledge"]
EngineSet = Literal["default", "scripted"]
PolicyName = Literal["none", "count", "token-bucket", "aimd", "gradient", "vegas", "deadline"]
LlmPool = Literal["dedicated", "shared", "monolithic"]

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=1, le=10_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Millis = Annotated[float, Meta(ge=0, le=600_000)]
Threads = Annotated[int, Meta(ge=1, le=256)]
Score = Annotated[float, Meta(ge=0, le=1)]
Share = Annotated[float, Meta(gt=0, le=1)]
Most = Annotated[int, Meta(ge=0, le=100_000)]
"""0: no limit."""
Host = Annotated[str, Meta(min_length=1)]
"""Not empty: sockets take an empty one for every address there is."""
LanguageCode = Annotated[str, Meta(pattern=r"\A[a-z]{2,3}\Z")]
"""ISO 639, as the recognisers name their languages."""

TokenName = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_.-]{0,39}\Z")]
Short = Annotated[str, Meta(min_length=1, max_length=40)]
"""Said in about two seconds at most."""

DEFAULT_INSTRUCTIONS = "You are a helpful voice assistant. Answer in one or two short, plain sentences."


NO_TURN_MODEL = "none"
API_TEXT_SLOTS = 4
"""Where an API is served and nothing else is said."""


class ScriptedConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The scripted engines: fixed words, stated service times. A stand-in for a device in tests, demos and
    load experiments."""

    transcripts: Annotated[tuple[str, ...], Meta(min_length=1)] = (
        "What is the capital of France?",
        "How long should I boil an egg?",
        "Can you tell me a joke about cats?",
    )
    """The n-th utterance is heard as the n-th of these, round and round."""
    reply: str = "This is a scripted reply. It has two sentences."
    asr_ms: Millis = 20.0
    """Service time of one decode."""
    llm_prefill_ms: Millis = 10.0
    llm_token_ms: Millis = 5.0
    tts_ms: Millis = 20.0
    """Service time of each piece of audio, `tts_piece_ms` long."""
    tts_piece_ms: Millis = 300.0
    completeness: Annotated[tuple[Score, ...], Meta(min_length=1)] = (0.9,)
    """The turn model's score in the n-th turn of a session is the n-th of these, round and round."""
    turn_model_ms: Millis = 50.0
    """Service time of one question to it."""
    occupy: Literal["sleep", "spin"] = "sleep"
    """"spin" burns the CPU as a model would; "sleep" only takes the time."""


class EnginesConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kind: EngineSet = "default"
    asr: str = "whisper-tiny.en"
    """A known model, a folder, or a hub id that faster-whisper can load."""
    asr_second: str = ""
    """A larger one than `asr`, such as "whisper-base": when nobody waits for an answer, it hears again what a turn
    has said, and corrects the history and what the client is shown. "" is none."""
    llm: str = "smollm2-135m-instruct"
    """A known model, a GGUF file, or an http(s) URL of an OpenAI-compatible endpoint (its key comes from
    the environment variable VOICEPIPE_LLM_API_KEY)."""
    llm_model: str = ""
    """The model's name at that endpoint, which has to be said: with a URL, and only then."""
    llm_small_model: str = ""
    """A faster model's name at that endpoint, or the same one's without thinking: it answers (rung "small-model")
    where the reply is begun too late to be in time. "" is none."""
    llm_timeout_s: Seconds = 10.0
    tts: str = "piper-en_US-joe-medium"
    """A known voice, or a Piper .onnx file with its .onnx.json beside it."""
    turn_model: str = NO_TURN_MODEL
    """Asked in pauses whether the speaker sounds finished: "smart-turn-v3.2", or a smart-turn v3 .onnx file or hub
    id. "none" goes by the words alone."""
    language: LanguageCode | None = None
    """Of the speech, as a code such as "de" or "yue"; None detects it where the model has several."""
    threads: Threads = 2
    """Threads of the embedded model and voice; recognition has one. More than the machine has cores is
    catastrophic, not slow."""
    context_tokens: Annotated[int, Meta(ge=256, le=1_048_576)] = 2048
    """Context of each slot, of a session or for a text, in tokens."""
    memory_tokens: Annotated[int, Meta(ge=64, le=1_048_576)] = 512
    """Of what was said before the newest message, so much is shown to the embedded model, and half of it once there
    is more. Looking back costs time: on two cores 250 more tokens make a turn some 20 ms later."""
    text_slots: Annotated[int, Meta(ge=0, le=12)] = 0
    """Slots of the embedded model for texts that nobody waits to hear, beside those of the sessions; 0 is none, and
    with `api_port` set four."""
    llm_pool: LlmPool = "dedicated"
    """How texts share the model with voice: "dedicated" makes them in slack only, "shared" whenever no voice chunk
    waits, "monolithic" in the order in which replies and texts were asked for (for experiments)."""
    scripted: ScriptedConfig = ScriptedConfig()


class AcknowledgeConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The sounds of the rung "acknowledge"."""

    texts: Annotated[tuple[Short, ...], Meta(min_length=2, max_length=16)] = (
        "Mm-hm.",
        "Let me see.",
        "One moment.",
    )
    """Spoken in turn, so that none comes twice in a row: 2 to 16 different ones. Rendered once, at start."""
    one_in: Annotated[int, Meta(ge=1, le=1000)] = 3
    """At most one turn in so many is acknowledged."""


class QuotaConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of the server one caller may take. 0 is no limit."""

    sessions: Most = 0
    """At once, those in the waiting room included."""
    per_minute: Most = 0
    """New ones."""


class TokenConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One bearer token, by the name under which quotas know it. The token itself is never in the configuration."""

    env: str = ""
    """Name of the environment variable that holds it."""
    file: str = ""
    """Or the file that does; white space around it does not count."""
    quota: QuotaConfig | None = None
    """Its own; without one, `admission.per_token` holds."""


class AdmissionConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who gets a session. `limits.max_sessions` is the most under every policy, and an idle server always takes
    one."""

    policy: PolicyName = "deadline"
    """"deadline" admits as long as all turns can be expected to be in time; "count" up to `limits.max_sessions`;
    "token-bucket" so many per minute; "aimd", "gradient" and "vegas" learn a number of sessions from how turns
    went; "none" refuses nobody below the most."""
    utilisation: Share = 0.85
    """"deadline": of the device, that sessions may need."""
    late: Annotated[float, Meta(gt=0, lt=1)] = 0.0075
    """"deadline": the share of turns that may be late because others ended just before. A quarter below one in a
    hundred: no prediction is exact, and turns are late for other reasons too."""
    loop_lag_ms: Annotated[float, Meta(gt=0, le=1000)] = 10.0
    """"deadline": p99 of the event loop's lag, from which on nobody is admitted; at half of it somebody is
    again."""
    kv_pool_tokens: Most = 0
    """"deadline": context that the sessions of a model behind a URL share, in tokens. 0: each has a slot of its
    own."""
    prompt_tokens: Annotated[int, Meta(ge=1, le=1_048_576)] = 1500
    """The most that a session's prompt is expected to have."""
    thinking_tokens: Most = 0
    """The same for thoughts before an answer, if the model has any."""
    sessions_per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 30
    """"token-bucket": how many are admitted in the long run."""
    burst: Count = 4
    """"token-bucket": how many at once."""
    waiting_places: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Clients that may wait for a session instead of being refused."""
    waiting_s: Seconds = 30.0
    """The longest wait."""
    per_token: QuotaConfig = QuotaConfig()
    """For each token that has no quota of its own."""
    per_address: QuotaConfig = QuotaConfig()
    """For each address, an IPv6 network of 64 bits counting as one. Not applied on loopback, where a proxy may
    stand for everyone."""


class OverloadConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where load begins to be shed: at 92 % of any of these speculation, at 95 % background, at 100 % new
    sessions."""

    loop_lag_ms: Annotated[float, Meta(gt=0, le=10_000)] = 10.0
    input_age_ms: Annotated[float, Meta(gt=0, le=10_000)] = 100.0
    """How long sound waits before it is listened to."""
    backlog_ms: Annotated[float, Meta(gt=0, le=10_000)] = 250.0
    """Service that turns which have begun wait for at the device, for half a second on end."""


class LimitsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    max_sessions: Count = 4
    max_connections: Count = 256
    """Open at once, at the voice door and at the API's each; beyond it 503, `connections` and Retry-After. Beyond
    twice as many, the voice door cuts them without a word, and the API's closes them with the same one."""
    max_connections_per_address: Count = 64
    idle_s: Seconds = 300.0
    """A session from which nothing comes for so long is closed."""
    session_s: Seconds = 7200.0
    turn_s: Seconds = 300.0
    """The longest turn; it is committed where it stands."""
    engine_timeout_s: Seconds = 10.0
    max_waiting_texts: Annotated[int, Meta(ge=0, le=10_000)] = 16
    """Texts that may wait for a slot; more are refused."""
    max_text_tokens: Annotated[int, Meta(ge=1, le=1_048_576)] = 1024
    """The longest text, and how long one is where the request does not say."""
    send_timeout_s: Seconds = 5.0
    """A client that does not take a frame for so long is let go."""
    grace_s: Seconds = 10.0
    """How long SIGTERM lets running turns go on."""


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    host: Host = "127.0.0.1"
    port: Port = 8765
    api_port: Port | None = None
    """Where `/v1/chat/completions` is served, on the same host; 0 takes any free port. Not set: nowhere."""
    operating_point: OperatingPoint = "fast"
    enforcement: Enforcement = "degrade"
    budget_ms: Annotated[float, Meta(ge=1, le=60_000)] = 200.0
    ladder: tuple[Rung, ...] = ("short-clause", "small-model")
    """What may be given up when a turn is about to be late. "short-clause" ends the first clause after three or
    four words; "small-model" has `engines.llm_small_model` answer, where there is one; "no-second-pass" does
    without `engines.asr_second`; "acknowledge" plays a short sound at the deadline, or at a commit that comes
    later. The last two are to be asked for: where nearly every turn is late, nothing would be heard twice, and
    "mm-hm" all the time."""
    acknowledge: AcknowledgeConfig = AcknowledgeConfig()
    instructions: str = DEFAULT_INSTRUCTIONS
    max_reply_tokens: Annotated[int, Meta(ge=1, le=4096)] = 120
    origins: tuple[str, ...] = ()
    """Further web origins that may connect; the server's own on loopback always may."""
    metrics_public: bool = False
    """Serve /metrics to other than loopback peers."""
    engines: EnginesConfig = EnginesConfig()
    limits: LimitsConfig = LimitsConfig()
    admission: AdmissionConfig = AdmissionConfig()
    overload: OverloadConfig = OverloadConfig()
    tokens: dict[TokenName, TokenConfig] = {}
    """Bearer tokens by name, beside those of VOICEPIPE_SERVER_TOKENS, which are "token-1", "token-2" and so on."""


def parse_config(values: Mapping[str, object]) -> Config:
    """Raises ConfigError, whose `field` is the dotted key."""
    _refuse_unknown(values, Config, "")
    try:
        config = msgspec.convert(values, Config)
    except msgspec.ValidationError as exc:
        raise _explained(exc) from None
    _check_llm(config.engines.llm)
    for name, wrong in _contradictions(config):
        raise ConfigError(f"{name}: {wrong}", field=name.partition(" ")[0])
    return _with_text_slots(config)


def _explained(error: msgspec.ValidationError) -> ConfigError:
    """In words that say what may stand there."""
    message, _, path = str(error).partition(" - at `")
    is_key, _, path = path.rpartition("$")
    field = path.strip(".`") or None
    if "matching regex" in message and is_key:  # of `TokenName`
        message = "expected a name of up to 40 small letters, digits and . _ -"
    elif "matching regex" in message:  # of `LanguageCode`
        message = "expected a code of two or three small letters, such as de"
    elif "unknown field" in message and (field or "").startswith("tokens"):
        message = "an unknown key beside those there are: env, file and quota"
    elif message.startswith("Invalid enum value") and field is not None:
        message = f"expected one of {', '.join(_choices(field))}"
    return ConfigError(f"{field or 'configuration'}: {message}", field=field)


def _choices(field: str) -> Sequence[str]:
    """Words that may stand at the dotted name."""
    kind: object = Config
    for part in field.split("."):
        name = part.partition("[")[0]
        kind = next(inner.type for inner in msgspec.structs.fields(kind) if inner.name == name)  # type: ignore[arg-type]
    while get_origin(kind) is not Literal:
        kind = get_args(kind)[0]
    return get_args(kind)


def _contradictions(config: Config) -> Iterator[tuple[str, str]]:
    """Key with its option, and what is wrong with its value beside another's."""
    for name, token in config.tokens.items():
        if bool(token.env) is bool(token.file):
            yield f"tokens.{name}", "either `env` or `file` says where the token is"
    if len(set(config.acknowledge.texts)) < len(config.acknowledge.texts):
        yield "acknowledge.texts", "the same text twice; none is to be heard twice in a row"
    if len(set(config.ladder)) < len(config.ladder):
        yield "ladder", "the same rung twice"
    yield from _engine_contradictions(config.engines)
    pool, admission = config.admission.kv_pool_tokens, config.admission
    if 0 < pool < admission.prompt_tokens + admission.thinking_tokens + config.max_reply_tokens:
        text = "less than one session needs: prompt_tokens, thinking_tokens and max_reply_tokens together"
        yield "admission.kv_pool_tokens", text


def _engine_contradictions(engines: EnginesConfig) -> Iterator[tuple[str, str]]:
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
    }.items():
        if value:
            yield name, "is for an endpoint, and engines.llm (--llm) is no URL; give the URL, or leave it out"


def _with_text_slots(config: Config) -> Config:
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


def _check_llm(spec: str) -> None:
    """The form of a URL; whatever else it names is for those who can look. The text repeats nothing of it: a URL
    may hold a password."""
    if "://" not in spec:
        return
    wrong = _url_fault(spec)
    if wrong is not None:
        text = f"engines.llm (--llm): {wrong}; expected a URL like http://127.0.0.1:8000/v1"
        raise ConfigError(text, field="engines.llm")


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


def _refuse_unknown(values: Mapping[str, object], config: type[Struct], table: str) -> None:
    """`table` is the dotted name of what is looked at, "" for the top level."""
    known = {field.name: field.type for field in msgspec.structs.fields(config)}
    for key, value in values.items():
        name = f"{table}.{key}".lstrip(".")
        if key not in known:
            where = f" in [{table}]" if table else ""
            raise ConfigError(f"unknown key `{key}`{where}{_hint(key, [*known])}", field=name)
        inner = known[key]
        if _is_table(inner) and isinstance(value, Mapping):
            _refuse_unknown(value, inner, name)


def _hint(key: str, siblings: Sequence[str]) -> str:
    """The nearest key of the same table, else the table that knows this key."""
    near = difflib.get_close_matches(key, siblings, n=1)
    if near:
        return f"; did you mean `{near[0]}`?"
    home = next((name for name, keys in _tables(Config, "") if key in keys), None)
    if home is None:
        return f"; known are {', '.join(siblings)}"
    return f"; it belongs in [{home}]" if home else "; it belongs above all tables"


def _tables(config: type[Struct], name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every table's dotted name, and its keys."""
    fields = msgspec.structs.fields(config)
    yield name, tuple(field.name for field in fields)
    for field in fields:
        if _is_table(field.type):
            yield from _tables(field.type, f"{name}.{field.name}".lstrip("."))


def _is_table(kind: object) -> TypeGuard[type[Struct]]:
    return isinstance(kind, type) and issubclass(kind, Struct)
