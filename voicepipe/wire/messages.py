"""The messages between a client and a session, as values.

This is the vocabulary that every dialect translates to; `native` puts it on the wire as it stands,
one JSON object per message with the name in `type`. The limits are part of the types. A type checks
what is decoded, not what is constructed.

Epochs: everything of a reply carries the epoch that its `turn.committed` announced. `turn.reopened`
and `reply.interrupted` end an epoch: nothing of it, or of an older one, may be heard afterwards.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

PROTOCOL: Final = "voicepipe.v1"

MAX_INSTRUCTIONS_CHARS: Final = 16 * 1024
MAX_TEXT_CHARS: Final = 8 * 1024
MAX_NAME_CHARS: Final = 128
MAX_TOOLS: Final = 32
U32_MAX: Final = 2**32 - 1
MIN_BUDGET_MS: Final = 1.0
MAX_BUDGET_MS: Final = 60_000.0
MAX_MS: Final = 24 * 3600 * 1000.0
"""A day: past any session limit. A number above it is a mistake of the sender."""

# --- field types ---------------------------------------------------------------------------------

RateHz = Annotated[int, Meta(ge=8000, le=48000)]
Channels = Annotated[int, Meta(ge=1, le=2)]
U32 = Annotated[int, Meta(ge=0, le=U32_MAX)]
TurnNumber = Annotated[int, Meta(ge=1, le=U32_MAX)]
Millis = Annotated[float, Meta(ge=0.0, le=MAX_MS)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
_VISIBLE: Final = (
    r"[^\s\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""A character outside of Unicode's categories Cc, Cf, Zs, Zl and Zp (16.0): `re` has no classes for them."""
Text = Annotated[str, Meta(max_length=MAX_TEXT_CHARS, pattern=_VISIBLE)]
"""More than white space, control and format characters: nothing can be said to a blank."""
Instructions = Annotated[str, Meta(max_length=MAX_INSTRUCTIONS_CHARS)]
Description = Annotated[str, Meta(max_length=MAX_TEXT_CHARS)]
ReplyTokens = Annotated[int, Meta(ge=1, le=4096)]
SilenceMs = Annotated[float, Meta(ge=32.0, le=2500.0)]
Result = Annotated[str, Meta(max_length=MAX_INSTRUCTIONS_CHARS)]
Place = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
"""Name of the line that another one comes behind; "" is the beginning."""

OperatingPoint = Literal["fast", "balanced", "safe"]
Enforcement = Literal["degrade", "enforce", "observe"]
TurnTaking = Literal["auto", "manual"]
ReplyAs = Literal["speech", "text"]
Mode = Literal["voice", "transcription"]
HistoryRole = Literal["system", "user", "assistant"]
Verdict = Literal["failed", "refused", "empty", "interrupted", "masked", "missed", "degraded", "met"]


class AudioFrame(Struct, frozen=True):
    """Sound: the payload of a binary frame.

    Inbound: epoch 0 (not looked at), `offset_samples` on the client's sample clock, `pcm` in the
    declared rate and channels, cut at any byte (an odd byte is carried over to the next frame).
    Outbound: the reply's epoch, `offset_samples` from the reply's first sample, `pcm` mono at
    `output_rate` and of whole samples.
    """

    epoch: int
    offset_samples: int
    """Modulo 2**32, as on the wire."""
    pcm: bytes
    """PCM16, little-endian."""


# --- client -> server ----------------------------------------------------------------------------


class AudioFormat(Struct, frozen=True):
    rate: RateHz
    channels: Channels = 1


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """A function that the client runs for the model."""

    name: Name
    description: Description = ""
    parameters: dict[str, object] = {}
    """JSON Schema of the arguments."""


class SessionStart(Struct, frozen=True, tag="session.start", omit_defaults=True):
    """The first message. None leaves the choice to the server's configuration."""

    audio: AudioFormat
    protocol: Literal["voicepipe.v1"]
    output_rate: RateHz | None = None
    instructions: Instructions | None = None
    operating_point: OperatingPoint | None = None
    enforcement: Enforcement | None = None
    turn_taking: TurnTaking = "auto"
    mode: Mode = "voice"
    auto_reply: bool = True
    """Off: a committed turn is answered only on `reply.create`."""
    interruptible: bool = True
    """Off: speech during a reply does not stop it."""
    resume: bool | Name | None = None
    """True asks for a token in `session.ready`. A token goes on with the conversation of the session that it was
    given to, and asks for the next one. Where nothing is kept under it (any more) there is an `error` with the code
    `resume_unknown`, and another `session.start`, without a token, begins afresh; what comes before that is passed
    over."""
    tools: Annotated[tuple[ToolSpec, ...], Meta(max_length=MAX_TOOLS)] = ()
    tool_choice: Name = "auto"
    """"auto", "none", "required", or the name of the tool that every reply has to call."""
    silence_ms: SilenceMs | None = None
    """The silence that ends a turn, whatever was said; instead of the operating point's."""
    reply_as: ReplyAs = "speech"
    max_reply_tokens: ReplyTokens | None = None


class SessionUpdate(Struct, frozen=True, tag="session.update", omit_defaults=True):
    """What holds from now on, in full: what is left out is as if `session.start` had left it out. A reply that has
    been begun is not touched."""

    instructions: Instructions | None = None
    operating_point: OperatingPoint | None = None
    enforcement: Enforcement | None = None
    turn_taking: TurnTaking = "auto"
    mode: Mode = "voice"
    auto_reply: bool = True
    interruptible: bool = True
    tools: Annotated[tuple[ToolSpec, ...], Meta(max_length=MAX_TOOLS)] = ()
    tool_choice: Name = "auto"
    silence_ms: SilenceMs | None = None
    reply_as: ReplyAs = "speech"
    max_reply_tokens: ReplyTokens | None = None


class Playback(Struct, frozen=True, tag="playback"):
    """How far the reply of `epoch` has come out of the loudspeaker."""

    epoch: U32
    played_samples: U32


class InputCommit(Struct, frozen=True, tag="input.commit", omit_defaults=True):
    """The speaker says that the turn is over."""

    even_empty: bool = False
    """There is a turn by it even where nothing was heard; and a reply that is being given ends."""


class InputClear(Struct, frozen=True, tag="input.clear"):
    """What was said in the present turn is to be forgotten. The turn, if there is one, ends as `empty`."""


class InputText(Struct, frozen=True, tag="input.text"):
    """A turn that is typed."""

    text: Text


class HistoryLine(Struct, frozen=True):
    role: HistoryRole
    text: Text


class ReplyCreate(Struct, frozen=True, tag="reply.create", omit_defaults=True):
    """Answer now, on these instructions or the session's."""

    instructions: Instructions | None = None
    lines: Annotated[tuple[HistoryLine, ...], Meta(max_length=200)] | None = None
    """To be answered instead of the conversation so far."""
    keep: bool = True
    """Off: the reply does not become a part of the conversation."""
    reply_as: ReplyAs | None = None
    max_reply_tokens: ReplyTokens | None = None
    tools: Annotated[tuple[ToolSpec, ...], Meta(max_length=MAX_TOOLS)] | None = None
    """Instead of the session's."""
    tool_choice: Name | None = None


class ReplyCancel(Struct, frozen=True, tag="reply.cancel"):
    """Stop the reply that is made or played. Nothing to stop is no error."""


class ToolResult(Struct, frozen=True, tag="tool.result", omit_defaults=True):
    """What came of a `tool.call`; `reply.create` asks for the reply that follows from it."""

    call_id: Name
    output: Result
    id: Name | None = None
    after: Place | None = None


class HistoryAdd(Struct, frozen=True, tag="history.add", omit_defaults=True):
    role: HistoryRole
    text: Text
    id: Name | None = None
    """The client's name for the item, for `history.delete`. The lines of turn 3 have the names `user-3` and
    `assistant-3`, calls of tools that of their `call_id`."""
    after: Place | None = None
    """None: it is the newest."""


class HistoryCall(Struct, frozen=True, tag="history.call", omit_defaults=True):
    """A call of a tool that belongs to the conversation, though no `tool.call` told of it."""

    call_id: Name
    name: Name
    arguments: Result
    """JSON."""
    id: Name | None = None
    """None: the call's `call_id`."""
    after: Place | None = None


class HistoryDelete(Struct, frozen=True, tag="history.delete"):
    """One that is not there (any more) is no error: the history has an end."""

    id: Name


class HistoryTruncate(Struct, frozen=True, tag="history.truncate"):
    """Of the reply of `epoch`, only the first `heard_ms` were heard."""

    epoch: U32
    heard_ms: Millis


class SessionEnd(Struct, frozen=True, tag="session.end"):
    """Close in good order."""


ClientMessage = (
    SessionStart
    | SessionUpdate
    | Playback
    | InputCommit
    | InputClear
    | InputText
    | ReplyCreate
    | ReplyCancel
    | ToolResult
    | HistoryAdd
    | HistoryCall
    | HistoryDelete
    | HistoryTruncate
    | SessionEnd
)

# --- server -> client ----------------------------------------------------------------------------


class SessionReady(Struct, frozen=True, tag="session.ready", omit_defaults=True):
    session: str
    protocol: str
    output_rate: RateHz
    """Rate of the reply's audio, Hz."""
    budget_ms: float
    """What a turn of this session may take from speech end to audible content."""
    achievable_ms: float | None
    """What this machine is measured to need; null while it is not known."""
    resume: str | None = None
    """Single-use token, if the client asked for one."""
    resumed: bool = False
    """It goes on with the conversation of the token that was shown: turns are counted on, epochs are later than all
    that were heard before."""


class Waiting(Struct, frozen=True, tag="waiting"):
    """In the waiting room; 1 is next. Comes again whenever the place changes, until `session.ready` or `refused`.
    A client sends `session.start` and then no audio before it is its turn: nobody reads it, and who does not read
    cannot see that the client goes either."""

    position: U32


class Refused(Struct, frozen=True, tag="refused"):
    """No session; the connection closes with 1013, or with 1008 where time does not change the answer."""

    reason: str
    """A short word: those of `core.admission.Reason`, "warming_up", "draining"; with 1008 "unauthorized",
    "origin_not_allowed"."""
    retry_after_ms: U32
    """When to come back; 0 with 1008."""


class SpeechStarted(Struct, frozen=True, tag="speech.started", omit_defaults=True):
    turn: int | None = None
    offset_samples: int | None = None
    """Onset on the client's sample clock."""


class TranscriptPartial(Struct, frozen=True, tag="transcript.partial"):
    turn: int
    stable: str
    """Append-only within the turn, until the final replaces it."""
    tentative: str
    """May still change."""


class TranscriptFinal(Struct, frozen=True, tag="transcript.final"):
    """What was said. May come again for the same turn, also after its end: a second, more careful decode heard
    other words. The last one holds; a reply that was made for the words before it is not touched."""

    turn: int
    text: str


class TurnCommitted(Struct, frozen=True, tag="turn.committed"):
    """The turn is over; its reply will carry `epoch`."""

    turn: int
    epoch: U32


class TurnReopened(Struct, frozen=True, tag="turn.reopened"):
    """The speaker went on: the turn keeps its number, what was said of its reply is taken back."""

    turn: int
    epoch: U32


class ReplyAcknowledged(Struct, frozen=True, tag="reply.acknowledged"):
    """The content will be late. The reply's first `samples` are a short sound instead, a cached "mm-hm", whose
    audio follows; content begins behind them, at the offset `samples`, at once or after a pause. They count in
    every position of the reply (`offset_samples`, `playback`, `reply.done`, `heard_ms`), and are no answer: neither
    text nor gap."""

    turn: int
    epoch: U32
    samples: int


class ReplyText(Struct, frozen=True, tag="reply.text", omit_defaults=True):
    """A piece of the reply's text. Pieces are joined as they are: they bring their own spaces."""

    turn: int
    epoch: U32
    text: str
    offset_samples: int | None = None
    """Where this text's sound begins in the reply. None: the content begins at 0, or behind the sound that
    `reply.acknowledged` told of."""
    spoken: bool = True
    """Off: it is not to be heard, and is all there is (`reply_as: "text"`)."""


class ReplyDone(Struct, frozen=True, tag="reply.done"):
    """All of the reply has been sent: `samples` in all, an acknowledgement included."""

    turn: int
    epoch: U32
    samples: int


class ReplyInterrupted(Struct, frozen=True, tag="reply.interrupted"):
    """The reply of `epoch` ends here: the client throws away what it has not played."""

    turn: int
    epoch: U32
    heard_ms: float


class StageTimes(Struct, frozen=True):
    """Critical-path time after speech end."""

    wait_ms: float = 0.0
    service_ms: float = 0.0


class Stages(Struct, frozen=True):
    endpoint: StageTimes
    asr: StageTimes
    llm: StageTimes
    tts: StageTimes
    send: StageTimes


class Speculation(Struct, frozen=True):
    hit: bool
    """The reply had been begun before the commit."""
    attempts: int
    saved_ms: float
    """Service for that reply before the speech end."""
    wasted_ms: float
    """Service for replies that were dropped."""


class Blame(Struct, frozen=True):
    """The one stage and kind that a miss is put down to."""

    stage: str
    """One of the five stages, "client", or "unattributed"."""
    kind: str
    ms: float


class TurnEnded(Struct, frozen=True, tag="turn.ended"):
    """Exactly one per turn."""

    turn: int
    verdict: Verdict
    felt_estimate_ms: float | None
    """Speech end to estimated audibility of content: the sum of `stages`. None without content; of a turn that is
    refused, `stages` add up to the time until then."""
    system_ms: float | None
    """Commit to the hand-off of that sample to the socket."""
    stages: Stages
    speculation: Speculation
    blame: Blame | None
    """Of late content, and of a turn that was refused for it."""
    reason: str | None = None
    """Why it was `refused` ("late-commit", "no-content"), or the code of the error by which it `failed`."""


class ToolCall(Struct, frozen=True, tag="tool.call"):
    """The model wants this function run; the answer is a `tool.result` with the same `call_id`."""

    turn: int
    epoch: U32
    call_id: str
    name: str
    arguments: str
    """JSON, as the model wrote it; it fits the tool's schema."""


class Error(Struct, frozen=True, tag="error", omit_defaults=True):
    code: str
    """Stable; one of the codes in `voicepipe.errors`."""
    message: str
    field: str | None = None


class Draining(Struct, frozen=True, tag="draining", omit_defaults=True):
    """The server is going away: running turns end, then 1012."""

    deadline_ms: float
    """Time left."""
    resume: str | None = None
    """Always None at present: a token is known to the process that gave it alone, and that one ends."""


ServerMessage = (
    SessionReady
    | Waiting
    | Refused
    | SpeechStarted
    | TranscriptPartial
    | TranscriptFinal
    | TurnCommitted
    | TurnReopened
    | ReplyAcknowledged
    | ReplyText
    | ReplyDone
    | ReplyInterrupted
    | TurnEnded
    | ToolCall
    | Error
    | Draining
)

# --- for dialects that say more ------------------------------------------------------------------


class MediaTime(Struct, frozen=True):
    """Where on the caller's stream lies what is told next: the onset of `speech.started`, the end of the speech of
    `turn.committed`."""

    turn: int
    at_ms: int
    """Of sound that has come in since the session began."""


class ReplyMade(Struct, frozen=True):
    """What the model has read and written for the reply of `epoch`; told before the reply's end."""

    turn: int
    epoch: int
    input_tokens: int
    """Of the whole prompt, as far as it is known without splitting it."""
    output_tokens: int
    cut: bool
    """It ended because it had reached the most tokens that it might have."""


Told = ServerMessage | AudioFrame | MediaTime | ReplyMade
"""All that a session tells its dialect."""
