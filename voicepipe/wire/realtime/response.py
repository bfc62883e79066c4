"""One response, from `response.created` to `response.done`: its items, and the events that tell of them.

Sound and its transcript, or text, make up one message; each call of a function is an item of its own behind it.
Every event that begins something has one that ends it, whatever became of the reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from voicepipe.wire import messages as wire
from voicepipe.wire.realtime.config import Config, format_object
from voicepipe.wire.realtime.faults import SERVER
from voicepipe.wire.realtime.items import Conversation, Item, Status
from voicepipe.wire.realtime.sound import Format, Outlet

Event = dict[str, Any]
Reason = Literal["turn_detected", "client_cancelled"]

ARGUMENTS_PIECE: Final = 64
"""Characters of a function's arguments in one event: they are known as a whole before the first of them is told."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a response is made by."""

    spoken: bool
    format: Format
    voice: Any
    max_tokens: int | None
    metadata: dict[str, str] | None = None
    kept: bool = True
    """It is a part of the conversation."""

    @classmethod
    def of(cls, config: Config) -> Terms:
        return cls(config.spoken, config.output_format, config.voice, config.max_tokens)


class Response:
    def __init__(self, ident: str, turn: int, epoch: int, terms: Terms, conversation: Conversation) -> None:
        self.id = ident
        self.turn = turn
        self.epoch = epoch
        self.cancelled = False
        """The client has asked for its end."""
        self.made: wire.ReplyMade | None = None
        self._terms = terms
        self._conversation = conversation
        self._items: list[Item] = []
        self._message: Item | None = None
        self._open = False
        """The message is being told."""
        self._outlet = Outlet(terms.format)
        self._text: list[str] = []

    # --- events

    def created(self) -> Iterator[Event]:
        yield {"type": "response.created", "response": self._told("in_progress")}

    def on_text(self, text: str) -> Iterator[Event]:
        yield from self._begun()
        self._text.append(text)
        kind = "output_audio_transcript" if self._terms.spoken else "output_text"
        yield self._of_part(f"response.{kind}.delta", delta=text)

    def on_audio(self, pcm: bytes) -> Iterator[Event]:
        yield from self._begun()
        assert self._message is not None
        delta = self._outlet.push(pcm)
        self._message.audio_ms = self._outlet.ms
        if delta:
            yield self._of_part("response.output_audio.delta", delta=delta)

    def on_call(self, call: wire.ToolCall, ident: str) -> Iterator[Event]:
        item = Item(
            ident,
            "function_call",
            call_id=call.call_id,
            name=call.name,
            arguments="",
            status="in_progress",
            line=call.call_id if self._terms.kept else None,
            epoch=self.epoch,
        )
        yield from self._added(item)
        at = {
            "response_id": self.id,
            "item_id": ident,
            "output_index": len(self._items) - 1,
            "call_id": call.call_id,
        }
        kind = "response.function_call_arguments"
        for begin in range(0, len(call.arguments), ARGUMENTS_PIECE):
            yield {"type": f"{kind}.delta", **at, "delta": call.arguments[begin : begin + ARGUMENTS_PIECE]}
        item.arguments, item.status = call.arguments, "completed"
        yield {"type": f"{kind}.done", **at, "name": call.name, "arguments": call.arguments}
        yield from self._done(item)

    def on_end_of_output(self, status: Status = "completed") -> Iterator[Event]:
        """The message is as long as it will be. Nothing where it has ended, or never began."""
        if not self._open:
            return
        assert self._message is not None
        rest = self._outlet.flush()
        if rest:
            yield self._of_part("response.output_audio.delta", delta=rest)
        self._open = False
        self._message.status = status
        text = "".join(self._text)
        if self._terms.spoken:
            part = {"type": "audio", "transcript": text}
            self._message.content = [{"type": "output_audio", "transcript": text}]
            yield self._of_part("response.output_audio.done")
            yield self._of_part("response.output_audio_transcript.done", transcript=text)
        else:
            part = {"type": "text", "text": text}
            self._message.content = [{"type": "output_text", "text": text}]
            yield self._of_part("response.output_text.done", text=text)
        yield self._of_part("response.content_part.done", part=part)
        yield from self._done(self._message)

    def done(self, *, reason: Reason | None, failure: tuple[str, str] | None, extension: Event) -> Iterator[Event]:
        """`failure`: code and text. `extension`: what the protocol has no place for."""
        cut = self.made is not None and self.made.cut
        status, details = _ending(reason, failure, cut=cut)
        yield from self.on_end_of_output("completed" if status == "completed" else "incomplete")
        told = self._told(status) | {"status_details": details, "usage": self._usage(), "voicepipe": extension}
        yield {"type": "response.done", "response": told}

    @property
    def message(self) -> Item | None:
        return self._message

    # --- inner

    def _begun(self) -> Iterator[Event]:
        if self._message is not None:
            return
        ident = self._conversation.free(f"item_{self.id.removeprefix('resp_')}")
        line = f"assistant-{self.turn}" if self._terms.kept else None
        item = Item(ident, role="assistant", status="in_progress", line=line, epoch=self.epoch)
        self._message, self._open = item, True
        yield from self._added(item)
        part = {"type": "audio", "transcript": ""} if self._terms.spoken else {"type": "text", "text": ""}
        yield self._of_part("response.content_part.added", part=part)

    def _added(self, item: Item) -> Iterator[Event]:
        self._items.append(item)
        index = len(self._items) - 1
        yield {
            "type": "response.output_item.added",
            "response_id": self.id,
            "output_index": index,
            "item": item.told(),
        }
        if self._terms.kept:
            before = self._conversation.add(item)
            yield {"type": "conversation.item.added", "previous_item_id": before, "item": item.told()}

    def _done(self, item: Item) -> Iterator[Event]:
        index = self._items.index(item)
        if self._terms.kept:
            yield {"type": "conversation.item.done", "previous_item_id": self._before(item), "item": item.told()}
        yield {
            "type": "response.output_item.done",
            "response_id": self.id,
            "output_index": index,
            "item": item.told(),
        }

    def _before(self, item: Item) -> str | None:
        before = None
        for other in self._conversation:
            if other is item:
                return before
            before = other.id
        return None

    def _of_part(self, kind: str, **more: Any) -> Event:
        assert self._message is not None
        return {
            "type": kind,
            "response_id": self.id,
            "item_id": self._message.id,
            "output_index": self._items.index(self._message),
            "content_index": 0,
            **more,
        }

    def _told(self, status: str) -> Event:
        terms = self._terms
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": None,
            "output": [item.told() for item in self._items],
            "conversation_id": "conv_1" if terms.kept else None,
            "output_modalities": ["audio" if terms.spoken else "text"],
            "max_output_tokens": terms.max_tokens or "inf",
            "audio": {"output": {"format": format_object(terms.format), "voice": terms.voice}},
            "usage": None,
            "metadata": terms.metadata,
        }

    def _usage(self) -> Event:
        """The model reads and writes text alone: its tokens are all there are."""
        made = self.made
        read, written = (0, 0) if made is None else (made.input_tokens, made.output_tokens)
        return {
            "total_tokens": read + written,
            "input_tokens": read,
            "output_tokens": written,
            "input_token_details": {"text_tokens": read, "audio_tokens": 0, "cached_tokens": 0},
            "output_token_details": {"text_tokens": written, "audio_tokens": 0},
        }


def _ending(reason: Reason | None, failure: tuple[str, str] | None, *, cut: bool) -> tuple[str, Event | None]:
    if failure is not None:
        code, message = failure
        return "failed", {"type": "failed", "error": {"type": SERVER, "code": code, "message": message}}
    if reason is not None:
        return "cancelled", {"type": "cancelled", "reason": reason}
    if cut:
        return "incomplete", {"type": "incomplete", "reason": "max_output_tokens"}
    return "completed", None
