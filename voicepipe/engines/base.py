"""What an engine is: five small Protocols whose calls are chunks.

A *chunk* is one call of `probability`, `decode` or `step`: non-preemptible, with a bound that the engine keeps
by construction (so many tokens, so many samples). Between two chunks anything can be stopped. Chunks of one
object never overlap; the device sees to it.

`placement` says where a chunk runs. "thread": the call blocks, and runs on a thread of the device's lane.
"loop": the call is a coroutine function, and its await occupies the lane (a remote endpoint, a scripted wait).
Everything else of an engine (`open`, `generate`, `synthesize`, `cancel`, `close`) is cheap, does no device
work, never blocks, and is called on the event loop's thread.

All audio inside voicepipe is float32 mono in [-1, 1]; towards `Vad` and `Asr` at 16,000 Hz.
Engines raise `EngineError`s; any other exception out of a chunk is treated as a failed chunk as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
"""Mono samples in [-1, 1], shape (n,)."""

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]
"""A plain value where `placement` is "thread", an awaitable of it where it is "loop"."""

Placement = Literal["thread", "loop"]


@dataclass(frozen=True, slots=True)
class Context:
    """For whom a chunk is. Plain data, so that it can travel to another process."""

    session: str
    turn: int
    epoch: int
    revision: int
    remaining_ms: float | None = None
    """Time left until the turn's deadline; None where no deadline runs yet."""


@dataclass(frozen=True, slots=True)
class StepSize:
    """How much the next step has to do, as far as that is known before it runs: what its cost depends on."""

    variant: Literal["split", "prefill", "decode", "first", "later", "recheck", ""]
    """A "recheck" may find that what was heard last is all there was, or else decodes it anew; a recogniser's other
    steps have no name."""
    units: float
    """Characters of which a "split" makes tokens; tokens that a "prefill" reads or a "decode" makes at most, those
    that are only tried at what they take in comparison; characters that a "first" piece begins to speak; samples of
    a "later" piece; seconds of sound to recognise."""
    context: float = 0.0
    """Tokens that the model attends to beside them."""
    batch: int = 1
    """Steps of its kind, of several sessions, that the engine can do at once."""


# --- Vad -------------------------------------------------------------------------------------------------


class VadStream(Protocol):
    """Voice activity of one session, in consecutive frames. Keeps state from frame to frame."""

    frame_samples: int
    """Samples per frame at 16 kHz (Silero: 512 = 32 ms)."""

    def probability(self, frame: Samples) -> MaybeAwaitable[float]:
        """Probability in [0, 1] that the frame holds speech. `frame` has shape (frame_samples,)."""
        ...


class Vad(Protocol):
    """Makes one stream per session."""

    placement: Placement
    name: str
    lag_s: float
    """How long after the acoustic end of speech the first silent frame begins, at the median."""

    def open(self) -> VadStream: ...


# --- TurnModel -------------------------------------------------------------------------------------------

TURN_MODEL_S = 8.0
"""What a turn model is shown at most."""


class TurnModel(Protocol):
    """Scores from the sound whether the speaker has finished."""

    placement: Placement
    name: str

    def completeness(self, audio: Samples, ctx: Context) -> MaybeAwaitable[float]:
        """Score in [0, 1] for the last 8 s (or less) of the turn's audio, silence at its end included."""
        ...


# --- Asr -------------------------------------------------------------------------------------------------

ASR_RATE_HZ = 16_000


@dataclass(frozen=True, slots=True)
class Window:
    """Audio to decode: samples [start, start + len(samples)) of the session's 16 kHz sample clock."""

    utterance: int
    """Turn number. A new number makes the stream forget the utterance before."""
    start: int
    samples: Samples
    speech_samples: int
    """How many of the utterance's samples the VAD called speech so far."""


def whole_window(window: Window) -> StepSize:
    """The size of a decode of all of it."""
    return StepSize("", len(window.samples) / ASR_RATE_HZ)


@dataclass(frozen=True, slots=True)
class Transcript:
    """What is heard so far in the utterance, its beginning included."""

    stable: str
    """Append-only within an utterance, until a final replaces it."""
    tentative: str
    """May still change. Empty in a final."""
    final: bool
    rejected: str | None = None
    """Name of the guard that emptied or cut this step's hypothesis, None if none did."""
    tokens: int = 0
    """Decoder tokens generated: a unit of cost."""
    encoded_s: float = 0.0
    """Seconds of audio encoded: a unit of cost."""

    @property
    def text(self) -> str:
        return f"{self.stable} {self.tentative}".strip()


class AsrStream(Protocol):
    """Streaming recognition of one session, utterance by utterance.

    Each `decode` gets the audio from `window_start` (or from before it) up to now. A partial advances the
    stable prefix and may advance `window_start` past audio whose words are stable. A final decodes what is
    left of the utterance and returns its whole text; speech may go on afterwards (a pause that was none), and
    partials then continue in the same utterance.
    """

    window_start: int
    """First sample that the next `decode` still needs. Read on the loop thread between chunks."""

    def next_size(self, window: Window, *, final: bool) -> StepSize:
        """Of a decode of this window. Read on the loop's thread, and quick; while a decode of the stream runs, too,
        and then a guess at what that one will leave."""
        ...

    def decode(self, window: Window, *, final: bool, ctx: Context) -> MaybeAwaitable[Transcript]: ...

    def close(self) -> None: ...


class Asr(Protocol):
    placement: Placement
    name: str

    def open(self) -> AsrStream: ...


# --- Llm -------------------------------------------------------------------------------------------------

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The model wants this tool to be run."""

    call_id: str
    name: str
    arguments: str
    """JSON, as the model wrote it."""


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool that the model may ask for."""

    name: str
    description: str
    parameters: str
    """JSON schema of its arguments, as JSON."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Role
    content: str
    calls: tuple[ToolUse, ...] = ()
    """Of the assistant."""
    call_id: str = ""
    """Of the call that a "tool" answers."""


@dataclass(frozen=True, slots=True)
class Prompt:
    messages: tuple[ChatMessage, ...]
    max_tokens: int
    """At least 1: the most tokens that the reply may take."""
    small: bool = False
    """To be answered by the smaller model of an engine that has one; others do not look at it."""
    tools: tuple[ToolOffer, ...] = ()
    """For an engine that `calls_tools`."""
    tool_choice: str = "auto"
    """"auto", "none", "required", or the name of the tool that must be called."""


@dataclass(frozen=True, slots=True)
class LlmStep:
    """One chunk of a generation: some prefill, or a few tokens."""

    text: str
    """New text, "" while the prompt is still being read. Never holds half a UTF-8 character."""
    tokens: int
    """Tokens generated by this step."""
    prefilled: int = 0
    """Prompt tokens computed by this step: a unit of cost."""
    finish: Literal["stop", "length"] | None = None
    """None while there is more to come."""
    cut: bool = False
    """Cancelled before it was done: how long it took says little about what it would have taken."""
    calls: tuple[ToolUse, ...] = ()
    """Of tools, all of them with the step that finishes the reply."""


class Generation(Protocol):
    """One reply being made, a bounded chunk at a time. After `finish` or `cancel`, `step` is not called."""

    def next_size(self) -> StepSize:
        """Of the next step. Read on the loop's thread between chunks, and quick: where only the step itself can
        tell (how much of a prompt is new, before it is split into tokens), an estimate."""
        ...

    def step(self) -> MaybeAwaitable[LlmStep]: ...

    def cancel(self) -> None:
        """Let go of it. Idempotent; valid before the first step and while one runs."""
        ...


class StepTogether(Protocol):
    def __call__(self, generations: Sequence[Any], /) -> MaybeAwaitable[Sequence[LlmStep]]:
        """One step of each, of generations that the engine itself has made."""
        ...


class LlmSlot(Protocol):
    """One session's place in the engine: what it holds is never evicted for another session.

    The slot remembers the tokens it has computed; a generation starts by reusing the longest common prefix.
    At most one generation of a slot is stepped at a time; a new one may replace an unfinished one, which its
    owner has cancelled.
    """

    def generate(self, prompt: Prompt, ctx: Context) -> Generation: ...

    def close(self) -> None:
        """Give the slot back. Idempotent."""
        ...


class Llm(Protocol):
    placement: Placement
    name: str
    slots: int
    """How many sessions can hold a slot at once."""
    keeps_prefix: bool
    """A slot remembers what it has computed, so that reading a prompt's beginning ahead saves time."""
    has_small: bool
    """A smaller, faster model answers the prompts that ask for it."""
    calls_tools: bool
    """Prompts may offer tools, and hold calls and what came of them."""
    step_together: StepTogether | None
    """One chunk that takes the next step of several generations, whose `next_size` allows a batch of so many; what
    one of them raises, all do. None: there are no batches."""

    def open(self, session: str) -> LlmSlot:
        """Lease a slot. Raises EngineBusy."""
        ...

    async def aclose(self) -> None:
        """Let go of model and connections. No slot is leased any more."""
        ...


# --- texts that nobody waits to hear ---------------------------------------------------------------------


TextPhase = Literal["split", "prefill", "decode"]


@dataclass(frozen=True, slots=True)
class TextRequest:
    messages: tuple[ChatMessage, ...]
    max_tokens: int
    """At least 1."""
    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    """In (0, 1]."""
    seed: int = 0
    """32 bits. Equal requests with equal seeds get equal texts, as far as the model's arithmetic does not depend on
    what is computed beside them."""

    @property
    def characters(self) -> int:
        return sum(len(message.content) for message in self.messages)


@dataclass(frozen=True, slots=True)
class TextStep:
    """What one chunk has done for one text."""

    text: str = ""
    tokens: int = 0
    """Generated."""
    prefilled: int = 0
    """Tokens of the prompt that were read."""
    finish: Literal["stop", "length"] | None = None
    """None while there is more to come."""


class Text(Protocol):
    """A text being made in a slot of a pool."""

    prompt_tokens: int
    """0 until the prompt has been split into tokens."""

    def next_size(self) -> StepSize:
        """Of all that its next phase has to do: characters to split, tokens to read, tokens that it may still make.
        Read on the loop's thread between chunks."""
        ...

    def close(self) -> None:
        """Give the slot back, and with it whatever was computed. Idempotent; not while a chunk of it runs."""
        ...


class TextPool(Protocol):
    """Slots beside those of the sessions, in the same model: what a session holds is never evicted for a text."""

    placement: Placement
    name: str
    slots: int
    context_tokens: int
    """Of each slot."""

    def open(self, request: TextRequest) -> Text:
        """Raises EngineBusy."""
        ...

    def step(self, texts: Sequence[Text], units: int) -> MaybeAwaitable[tuple[TextStep, ...]]:
        """One chunk, and what it did for each of `texts`. One whose `next_size` is a "split" is split, whatever
        `units`; one to be read has up to `units` tokens read; several that are being written get up to `units`
        tokens each. Raises EngineError, of which all of them die; PromptRefused where a split shows that it must.
        """
        ...


# --- Tts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TtsStep:
    samples: Samples
    """At the engine's `sample_rate_hz`. May be empty (a clause without a sound, a front-end-only step)."""
    last: bool
    cut: bool = False
    """Cancelled before it was done."""


class Synthesis(Protocol):
    """One clause being spoken, a bounded chunk of audio at a time; the pieces join without a seam."""

    def next_size(self) -> StepSize:
        """Of the next step. Read on the loop's thread between chunks, and quick."""
        ...

    def step(self) -> MaybeAwaitable[TtsStep]: ...

    def cancel(self) -> None: ...


class Tts(Protocol):
    placement: Placement
    name: str
    sample_rate_hz: int

    def synthesize(self, text: str, ctx: Context, *, first: bool) -> Synthesis:
        """Speak one clause of plain text. `first` asks for the earliest possible sound."""
        ...


@dataclass(frozen=True, slots=True)
class Engines:
    """One of each, ready to use."""

    vad: Vad
    asr: Asr
    llm: Llm
    tts: Tts
    asr_second: Asr | None = None
    """A larger recogniser for second passes."""
    turn_model: TurnModel | None = None
    """None: how long a silence ends a turn is told by the words alone."""
    texts: TextPool | None = None
    """Slots for texts that nobody waits to hear; None where there are none."""
