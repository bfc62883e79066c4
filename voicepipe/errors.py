"""Every error that leaves voicepipe, in one tree.

    VoicepipeError
    ├── ClientError          the peer's fault; travels as `error {code, message, field?}`
    │   ├── BadJson, BadField, BadFrame, BadStart, UnknownType, OutOfOrder, TooLarge, Unsupported
    │   ├── ResumeUnknown    a token under which nothing is kept (any more)
    │   ├── Overfed          more sound than can be listened to
    │   └── SessionLimit     idle, too long
    ├── Refused              no session for this request: reason and the time to come back
    ├── EngineError          an engine failed; costs its own turn
    │   ├── EngineTimeout, EngineUnavailable, EngineThrottled, EngineBusy, EngineExhausted
    │   ├── PromptRefused, PromptTooLong
    │   └── BadToolCall
    ├── ModelError           a model is missing, corrupt or cannot be fetched
    │   ├── ModelMissing, ModelCorrupt, IndexUnreachable, UnknownModel
    ├── UsageError           wrong argument or file; exit status 2
    │   ├── ConfigError, AudioFileError, RecordingError, UnknownExperiment
    │   └── Unauthorized, Forbidden     by a server: the token, or where the caller comes from
    └── EnvironmentFailure   the surroundings do not allow it; exit status 1
        ├── PortInUse, NoMicrophone, ServerUnreachable, MissingExtra
        └── ConnectionLost, ServerDrained     in the middle of a session

`code` is stable and documented; the text is for people and says what to do. A bug of our own is an
AssertionError and never a member of this tree. No message ever holds what a user said.
"""

from __future__ import annotations

import traceback
from typing import ClassVar


class VoicepipeError(Exception):
    """Base of all. `field` names the offending input, if one does."""

    code: ClassVar[str] = "internal"
    close_code: ClassVar[int] = 1011
    """WebSocket close code, where the error ends the connection."""
    exit_status: ClassVar[int] = 1
    """Exit status of the command line, where the error ends the command."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class ClientError(VoicepipeError):
    """The peer broke the protocol. `fatal` ones end the connection with `close_code`."""

    code = "bad_message"
    close_code = 4400
    fatal: ClassVar[bool] = False


class BadJson(ClientError):
    """Not JSON, not an object, or without a `type`."""

    code = "bad_json"
    fatal = True


class UnknownType(ClientError):
    """A message type that this server does not know; it is ignored."""

    code = "unknown_type"


class BadField(ClientError):
    """A known message with a missing, mistyped or out-of-range field; it is ignored."""

    code = "bad_field"


class BadFrame(ClientError):
    """A binary frame without a whole header, or with an impossible length."""

    code = "bad_frame"
    fatal = True


class OutOfOrder(ClientError):
    """Legal in itself, but not now: audio before `session.start`, a second `session.start`."""

    code = "out_of_order"
    fatal = True


class BadStart(ClientError):
    """A `session.start` that cannot be honoured (rate, channels, protocol); there is no session."""

    code = "bad_start"
    fatal = True


class TooLarge(ClientError):
    """A frame over the size limit."""

    code = "too_large"
    close_code = 1009
    fatal = True


class Unsupported(ClientError):
    """Understood, but this server (or this configuration) does not offer it."""

    code = "unsupported"


class Overfed(ClientError):
    """More sound than is listened to: the oldest of what waits is passed over."""

    code = "overfed"


class SessionLimit(ClientError):
    """The session ran into its idle or length limit."""

    code = "session_limit"
    close_code = 4409
    fatal = True


class ResumeUnknown(ClientError):
    """Nothing is kept under the token of `session.start`; another `session.start` without it begins afresh."""

    code = "resume_unknown"


class Refused(VoicepipeError):
    """No session now. `retry_after_ms` says when to come back."""

    code = "refused"
    close_code = 1013

    def __init__(self, reason: str, retry_after_ms: int) -> None:
        super().__init__(f"refused: {reason}; try again in {retry_after_ms} ms")
        self.reason = reason
        self.retry_after_ms = retry_after_ms


class EngineError(VoicepipeError):
    """An engine failed at a piece of work. The turn that asked for it ends as `failed`."""

    code = "engine_failed"


class EngineTimeout(EngineError):
    """An engine did not answer within its limit."""

    code = "engine_timeout"


class EngineUnavailable(EngineError):
    """A remote engine cannot be reached, or answers with an error."""

    code = "engine_unavailable"


class EngineThrottled(EngineUnavailable):
    """A remote engine has asked this session, and not the others, to come back later."""

    code = "engine_throttled"


class EngineBusy(EngineError):
    """All slots of an engine are leased."""

    code = "engine_busy"


class EngineExhausted(EngineError):
    """So many turns of a session have failed in a row that it is ended."""

    code = "engine_exhausted"
    close_code = 1013


class PromptRefused(EngineError):
    """The model's chat template does not take these messages."""

    code = "bad_prompt"


class PromptTooLong(PromptRefused):
    """The prompt leaves no room for an answer in the context."""

    code = "context_length_exceeded"


class BadToolCall(EngineError):
    """The model asked for a tool that it was not offered, or with arguments that do not fit its schema."""

    code = "bad_tool_call"


class ModelError(VoicepipeError):
    """A model cannot be used."""

    code = "model_error"


class ModelMissing(ModelError):
    """The file or folder is not there."""

    code = "model_missing"


class ModelCorrupt(ModelError):
    """The file is there and is not what its hash says."""

    code = "model_corrupt"


class IndexUnreachable(ModelError):
    """The package index could not be reached, or does not hold the package."""

    code = "index_unreachable"


class UnknownModel(ModelError):
    """No model of that name is known."""

    code = "unknown_model"
    exit_status = 2


class UsageError(VoicepipeError):
    """A wrong argument. Exit status 2."""

    code = "usage"
    exit_status = 2


class ConfigError(UsageError):
    """A configuration that is not valid; `field` holds the dotted key."""

    code = "bad_config"


class AudioFileError(UsageError):
    """A file that is not audio, is empty, or is too long."""

    code = "bad_audio_file"


class RecordingError(UsageError):
    """A file that is no recording, one of another version, or a line of it that cannot be read."""

    code = "bad_recording"


class UnknownExperiment(UsageError):
    """No experiment of the simulator has that name."""

    code = "unknown_experiment"


class Unauthorized(UsageError):
    """The server needs a token, and has got none or a wrong one (HTTP 401)."""

    code = "unauthorized"


class Forbidden(UsageError):
    """The server, or what stands before it, does not let this caller in whatever the token (HTTP 403)."""

    code = "forbidden"


class EnvironmentFailure(VoicepipeError):
    """The machine does not offer what the command needs. Exit status 1."""

    code = "environment"


class PortInUse(EnvironmentFailure):
    """Somebody else listens on the address."""

    code = "port_in_use"


class NoMicrophone(EnvironmentFailure):
    """No microphone, no PortAudio, or no `sounddevice`."""

    code = "no_microphone"


class ServerUnreachable(EnvironmentFailure):
    """No voicepipe server answers at the URL."""

    code = "server_unreachable"


class ConnectionLost(EnvironmentFailure):
    """The server went away in the middle of a session."""

    code = "connection_lost"


class ServerDrained(ConnectionLost):
    """It went away in order: it had said so (`draining`), let running turns end, and closed with 1012."""

    code = "server_drained"


class MissingExtra(EnvironmentFailure):
    """A package that an optional part needs is not installed; the message names the extra."""

    code = "missing_extra"


def type_and_place(error: BaseException) -> str:
    """What a log may hold of an error that is not ours: its text might be what somebody said."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"
