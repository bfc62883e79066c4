"""What can be set: every option with its default, its limits, and what it means.

This is the one place. The text under an option is what the written configuration file, and its page in the
documentation, say of it (`config.describe`); units stand in the names.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

OperatingPoint = Literal["fast", "balanced", "safe"]
Enforcement = Literal["degrade", "enforce", "observe"]
Rung = Literal["short-clause", "no-second-pass", "small-model", "acknowledge", "filler"]
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
    """What is answered, every time."""
    calls: tuple[str, ...] = ()
    """Tools with their arguments as JSON, such as "clock {}": the model calls the first of these that it is
    offered, instead of what it would have said; when it knows what came of it, it says the reply."""
    asr_ms: Millis = 20.0
    """Service time of one decode."""
    llm_prefill_ms: Millis = 10.0
    """Service time of reading the prompt."""
    llm_token_ms: Millis = 5.0
    """Service time of each word of the reply."""
    llm_batch: Annotated[int, Meta(ge=1, le=256)] = 8
    """Replies of which one step makes a word each; 1: one at a time."""
    llm_more_ms: Millis = 0.5
    """Service time that each further reply adds to such a step."""
    tts_ms: Millis = 20.0
    """Service time of each piece of audio, `tts_piece_ms` long."""
    tts_piece_ms: Millis = 300.0
    """Length of the sound that one piece makes."""
    completeness: Annotated[tuple[Score, ...], Meta(min_length=1)] = (0.9,)
    """The turn model's score in the n-th turn of a session is the n-th of these, round and round."""
    turn_model_ms: Millis = 50.0
    """Service time of one question to it."""
    llm_fails_every: Most = 0
    """Of the replies, one in so many fails at its first step, to see what a fault costs; 0: none does."""
    occupy: Literal["sleep", "spin"] = "sleep"
    """"spin" burns the CPU as a model would; "sleep" only takes the time."""


class EnginesConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What hears, thinks and speaks."""

    kind: EngineSet = "default"
    """Real models, or scripted stand-ins that need none."""
    asr: str = "whisper-tiny.en"
    """A known model, a folder, or a hub id that faster-whisper can load."""
    asr_second: str = ""
    """A larger one than `asr`, such as "whisper-base": when nobody waits for an answer, it hears again what a turn
    has said, and corrects the history and what the client is shown. "" is none."""
    llm: str = "smollm2-135m-instruct"
    """A known model, a GGUF file, a hub id (org/name:file.gguf), or an http(s) URL of an OpenAI-compatible
    endpoint."""
    llm_api_key_file: str = ""
    """The file that holds that endpoint's key; white space around it does not count. The environment variable
    VOICEPIPE_LLM_API_KEY goes before it. "" is none."""
    llm_model: str = ""
    """The model's name at that endpoint, which has to be said: with a URL, and only then."""
    llm_small_model: str = ""
    """A faster model's name at that endpoint, or the same one's without thinking: it answers (rung "small-model")
    where the reply is begun too late to be in time. "" is none."""
    llm_timeout_s: Seconds = 10.0
    """How long that endpoint may let us wait for a part of its answer."""
    llm_failures: Annotated[int, Meta(ge=0, le=1000)] = 5
    """After so many requests in a row that it has not answered, it is left alone for a second, then for up to
    half a minute; turns fail at once meanwhile, and one request at a time tries. 0 goes on asking."""
    tts: str = "piper-en_US-joe-medium"
    """A known voice, or a Piper .onnx file with its .onnx.json beside it."""
    turn_model: str = NO_TURN_MODEL
    """Asked in pauses whether the speaker sounds finished: "smart-turn-v3.2", or a smart-turn v3 .onnx file or hub
    id. "none" goes by the words alone."""
    language: LanguageCode | None = None
    """Of the speech, as a code such as "de" or "yue"; where it is not set, it is detected, if the model has
    several."""
    threads: Threads = 2
    """Threads of the embedded model and voice; recognition has one. More than the machine has cores is
    catastrophic, not slow."""
    context_tokens: Annotated[int, Meta(ge=256, le=1_048_576)] = 2048
    """Context of each slot, of a session or for a text."""
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


class FillerConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The phrases of the rung "filler"."""

    texts: Annotated[tuple[Short, ...], Meta(min_length=2, max_length=16)] = (
        "Let me check.",
        "One moment, please.",
    )
    """Spoken in turn: 2 to 16 different ones. Rendered once, at start."""


class QuotaConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of the server one caller may take. 0 is no limit."""

    sessions: Most = 0
    """At once, those in the waiting room included."""
    per_minute: Most = 0
    """New sessions, in the long run."""


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
    utilisation: Share = 0.9
    """"deadline": of the device, and of the lane that listens for speech, that sessions may need; less
    where turns are late all the same."""
    late: Annotated[float, Meta(gt=0, lt=1)] = 0.005
    """"deadline": the share of turns that may be late because others ended just before, on the average of a
    thousand. Well below one in a hundred: no prediction is exact, and turns are late for other
    reasons too."""
    loop_lag_ms: Annotated[float, Meta(gt=0, le=1000)] = 10.0
    """"deadline": p99 of the event loop's lag, from which on nobody is admitted; at half of it somebody is
    again."""
    kv_pool_tokens: Most = 0
    """"deadline": context that the sessions of a model behind a URL share. 0: each has a slot of its
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
    """How late the event loop runs a timer."""
    input_age_ms: Annotated[float, Meta(gt=0, le=10_000)] = 100.0
    """How long sound waits before it is listened to."""
    backlog_ms: Annotated[float, Meta(gt=0, le=10_000)] = 250.0
    """Service that turns which have begun wait for at the device, for half a second on end."""


class LimitsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of anything there may be, and how long it may take."""

    max_sessions: Count = 4
    """Sessions at a time, at most. An embedded model has a slot for each."""
    max_connections: Count = 256
    """Open at once, at the voice door and at the API's each; beyond it 503, `connections` and Retry-After. Beyond
    twice as many, the voice door cuts them without a word, and the API's closes them with the same one."""
    max_connections_per_address: Count = 64
    """Of the voice door's. Not applied on loopback, where a proxy may stand for everyone (`trusted_proxies`)."""
    idle_s: Seconds = 300.0
    """A session from which nothing comes for so long is closed."""
    session_s: Seconds = 7200.0
    """The longest session."""
    turn_s: Seconds = 300.0
    """The longest turn; it is committed where it stands."""
    start_s: Seconds = 10.0
    """How long a client may take for `session.start`, from its upgrade on."""
    first_input_s: Seconds = 120.0
    """How long it may then take for its first message, such as sound. A session that nobody uses is ended
    sooner than one that has gone quiet (`idle_s`)."""
    handshake_s: Annotated[float, Meta(gt=0, le=60)] = 5.0
    """How long the head of a request may take to come, TLS and all, at both doors; then its connection is cut."""
    audio_rate: Annotated[float, Meta(ge=1, le=1000)] = 2.0
    """So many times real time a client may send sound. What is too fast is thrown away, which the client is told
    (`rate_limited`)."""
    audio_burst_s: Annotated[float, Meta(gt=0, le=3600)] = 4.0
    """Of sound that may come at once beyond that: what a network that stood still has held back. At the realtime
    door, where recordings may be sent at once, no less than 60 s."""
    messages_per_s: Annotated[float, Meta(ge=1, le=100_000)] = 50.0
    """Messages other than sound, each 4 KiB of one counting as one."""
    messages_burst: Count = 250
    """How many of them may come at once beyond that."""
    rate_warnings: Annotated[int, Meta(ge=0, le=1000)] = 10
    """So often a client is told that it sends too fast, at most once a second unless it floods; the next time ends
    its session (`rate_exceeded`, 4429). Ten seconds without take one back."""
    history_lines: Annotated[int, Meta(ge=2, le=10_000)] = 200
    """Of a session's conversation that are kept, tools' calls and results included. The oldest go first."""
    history_chars: Annotated[int, Meta(ge=1000, le=10_000_000)] = 200_000
    """The same in characters. The newest line is kept whatever its length, which the wire limits."""
    engine_timeout_s: Seconds = 10.0
    """What an engine has not done by then has failed, and its turn with it."""
    failed_turns: Annotated[int, Meta(ge=0, le=1000)] = 5
    """After so many turns in a row that engines have failed, a session is ended (`engine_exhausted`): its place may
    be of more use to others. 0 goes on."""
    chunk_s: Seconds = 5.0
    """A call of an engine that takes longer has failed too, unless its declared bound allows for more; its lane
    goes on without it. Calls of which no bound is known have `engine_timeout_s`."""
    chunk_bounds: Annotated[int, Meta(ge=1, le=1000)] = 5
    """So many times its declared bound a call may take in any case."""
    abandoned_chunks: Annotated[int, Meta(ge=0, le=64)] = 2
    """Calls in threads that cannot be stopped and run on, before their lanes wait for them and the server is not
    ready (`engine_stuck`)."""
    max_waiting_texts: Annotated[int, Meta(ge=0, le=10_000)] = 16
    """Texts that may wait for a slot; more are refused."""
    max_text_tokens: Annotated[int, Meta(ge=1, le=1_048_576)] = 1024
    """The longest text, and how long one is where the request does not say."""
    send_timeout_s: Seconds = 5.0
    """A client that does not take a frame for so long is let go."""
    grace_s: Seconds = 10.0
    """How long SIGTERM lets running turns go on."""
    pre_stop_s: Annotated[float, Meta(ge=0, le=600)] = 0.0
    """How long SIGTERM only says that the server is not ready (`/readyz`), and still lets sessions in, before that:
    a load balancer may take its time to notice. A second signal cuts it short."""


class ResumeConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Clients that lose their connection and come back. What is kept of a session meanwhile is its conversation, as
    text; its place and all else goes back at once."""

    keep_s: Seconds = 30.0
    """How long it is kept."""
    most: Annotated[int, Meta(ge=0, le=10_000)] = 64
    """Conversations that are kept at a time; with one more, the oldest goes. 0 keeps none."""
    most_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = 8_388_608
    """Memory that they may take together; the oldest goes. One that is larger by itself is not kept."""


class FilesConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Files that are written while turns run, readable by their owner alone. "" is none; a name that does not begin
    with / counts from where the command is run. A missing last folder is made."""

    ledger: str = ""
    """Every chunk and every turn, a JSON object per line; no words."""
    trace: str = ""
    """The same as a Chrome trace, for Perfetto."""
    record: str = ""
    """What is decided and on what, for `voicepipe replay`. Holds all WORDS that are said, and no sound."""


class TwilioConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Phone calls at /v1/twilio."""

    public_url: str = ""
    """What stands before /v1/twilio in the URL that Twilio is given, such as "wss://voice.example": that URL is
    what it signs. "" is wss:// and the Host of the request, which a proxy may have changed."""
    auth_token_file: str = ""
    """The file that holds the account's auth token; white space around it does not count. The environment variable
    VOICEPIPE_TWILIO_AUTH_TOKEN goes before it. Where there is one, every call needs Twilio's signature, or a bearer
    token; where there is none, calls are let in like other sessions: with a bearer token, or from this machine. ""
    is none."""


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a server is, and what it promises."""

    host: Host = "127.0.0.1"
    """Address to listen on. Others than loopback need a token, or `insecure`."""
    port: Port = 8765
    """Of sessions, the page, health and metrics; 0 takes any free one."""
    api_port: Port | None = None
    """Where `/v1/chat/completions` is served, on the same host; 0 takes any free port. Not set: nowhere."""
    tls_cert: str = ""
    """PEM file of the server's certificate, and those behind it: then both doors speak TLS alone (wss and https).
    "" is none. Read once, at start."""
    tls_key: str = ""
    """PEM file of its key, without a passphrase."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies, such as "127.0.0.1" or "10.0.0.0/8", whose X-Forwarded-For is
    believed: limits, quotas and logs then go by the caller's address. Without them the header is not believed, but
    whoever sends it is not taken for this machine."""
    insecure: bool = False
    """Let everybody in who can reach the server, where there is no token. For closed networks and experiments."""
    operating_point: OperatingPoint = "fast"
    """How soon a pause ends a turn: the sooner, the more pauses are taken for an end."""
    enforcement: Enforcement = "degrade"
    """What a late turn gets: an answer all the same, by cheaper ways where that helps (degrade), none (enforce), or
    an answer and no cheaper way (observe)."""
    budget_ms: Annotated[float, Meta(ge=1, le=60_000)] = 200.0
    """From the end of speech to sound: the promise. A client may ask for another."""
    ladder: tuple[Rung, ...] = ("short-clause", "small-model")
    """What may be given up when a turn is about to be late. "short-clause" ends the first clause after three or
    four words; "small-model" has `engines.llm_small_model` answer, where there is one; "no-second-pass" does
    without `engines.asr_second`; "acknowledge" plays a short sound at the deadline, or at a commit that comes
    later; "filler" plays a short phrase where a reply only calls a tool, whose answer will be late. The second pass
    and the sounds are to be asked for: where nearly every turn is late, nothing would be heard twice, and "mm-hm"
    all the time."""
    acknowledge: AcknowledgeConfig = AcknowledgeConfig()
    filler: FillerConfig = FillerConfig()
    instructions: str = DEFAULT_INSTRUCTIONS
    """What the model is told to be, unless a client says it."""
    max_reply_tokens: Annotated[int, Meta(ge=1, le=4096)] = 120
    """The longest reply."""
    origins: tuple[str, ...] = ()
    """Further web origins that may connect, such as "https://voice.example"; the server's own on loopback always
    may."""
    metrics_public: bool = False
    """Serve /metrics to anybody, and not to this machine alone."""
    metrics_token_file: str = ""
    """The file that holds the bearer token for /metrics; white space around it does not count. The environment
    variable VOICEPIPE_METRICS_TOKEN goes before it. Where there is one, /metrics is served to whoever shows it,
    from everywhere, and to nobody else. "" is none."""
    experiments: str = ""
    """Folder whose pictures (SVG and PNG, captions in its captions.toml) are shown at /experiments. "" is that of
    the documentation in a checkout, and else none."""
    engines: EnginesConfig = EnginesConfig()
    limits: LimitsConfig = LimitsConfig()
    resume: ResumeConfig = ResumeConfig()
    files: FilesConfig = FilesConfig()
    admission: AdmissionConfig = AdmissionConfig()
    overload: OverloadConfig = OverloadConfig()
    twilio: TwilioConfig = TwilioConfig()
    tokens: dict[TokenName, TokenConfig] = {}
    """Bearer tokens by name, beside those of VOICEPIPE_SERVER_TOKENS, which are "token-1", "token-2" and so on."""
