"""The dialect: a client's events to the session's messages, and what the session says to events.

It keeps what its client can name: items, responses, and what it has asked for. A reply is not asked of the session
while the user speaks or another one is given; until then it is held here.

    turn of the user   speech_started, transcription deltas ... speech_stopped, committed, item, transcript
    its reply          response.created, item, deltas, ... response.done when it has been heard, with its verdict
    a reopened turn    response.done (turn_detected); at the new commit, the items that it replaces are deleted
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from voicepipe.errors import ClientError, SessionLimit, TooLarge, Unsupported, VoicepipeError
from voicepipe.wire import messages as wire
from voicepipe.wire.dialect import Frame, Step
from voicepipe.wire.realtime import events
from voicepipe.wire.realtime.beta import to_beta
from voicepipe.wire.realtime.config import Config, format_of, is_beta, native_tools
from voicepipe.wire.realtime.faults import Refusal, error_object
from voicepipe.wire.realtime.items import (
    ROOT,
    Conversation,
    Item,
    item_of,
    line_of,
    message_for,
    unknown_item,
)
from voicepipe.wire.realtime.names import SERVER_EVENTS
from voicepipe.wire.realtime.response import Event, Reason, Response, Terms
from voicepipe.wire.realtime.sound import BETA_FORMATS, RATE_HZ, Inlet

MIN_COMMIT_MS: Final = 100
MAX_ASKED: Final = 16
"""Responses that may be waited for."""
_ACTIVE: Final = "conversation_already_has_active_response"


@dataclass(slots=True)
class _Spoken:
    """What the user says in one turn, until it is committed."""

    turn: int
    item_id: str
    since_ms: int = 0
    """Where it began in what the client has sent."""
    told: str = ""
    """Transcript told so far."""
    text: str | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    create: wire.ReplyCreate
    terms: Terms
    event_id: str | None


class RealtimeDialect:
    max_backlog_s = 60.0
    least_burst_s = 60.0
    """A recording may come at once."""

    def __init__(self, headers: Mapping[str, str], query: Mapping[str, str]) -> None:
        offered = headers.get("sec-websocket-protocol", "")
        self._beta = "realtime=v1" in headers.get("openai-beta", "") or "openai-beta.realtime-v1" in offered
        kind = "transcription" if query.get("intent") == "transcription" else "realtime"
        self._config = replace(Config(kind=kind), model=query.get("model", "voicepipe")[:128])  # type: ignore[arg-type]
        if kind == "transcription":
            self._config = replace(self._config, transcription={"model": "voicepipe"})
        self._ready: wire.SessionReady | None = None
        self._event_id: str | None = None
        """Of the client's event that is dealt with."""
        self._serial = 0
        self._inlet = Inlet()
        self._uncommitted_samples = 0
        self._conversation = Conversation()
        self._of_turn: dict[int, Item] = {}
        """The user's items of late turns."""
        self._replaced: list[Item] = []
        """By what the user goes on to say."""
        self._at_ms: dict[int, int] = {}
        self._spoken: _Spoken | None = None
        self._turn: int | None = None
        """The session's turn that has not ended."""
        self._commits: deque[Item] = deque()
        """Items of commits of the client that the session has not answered yet."""
        self._cleared = False
        self._response: Response | None = None
        self._ending: list[Event] | None = None
        """What ends a response that the user has interrupted: told behind `speech_started`."""
        self._reason: Reason | None = None
        self._failure: tuple[str, str] | None = None
        self._asked: deque[_Asked] = deque()
        self._granted: deque[_Asked] = deque()
        self._granting: _Asked | None = None
        """What the session is asked for just now."""

    # --- the seam

    def opening(self) -> wire.SessionStart:
        native = self._config.native()
        return wire.SessionStart(
            audio=wire.AudioFormat(RATE_HZ),
            protocol=wire.PROTOCOL,
            output_rate=RATE_HZ,
            mode=native.mode,
            auto_reply=native.auto_reply,
        )

    def receive(self, data: Frame) -> Iterator[Step]:
        self._event_id = None
        envelope = events.open_envelope(data)
        self._event_id = envelope.event_id
        event = events.decode(envelope)
        match event:
            case events.Append():
                yield from self._append(event)
            case events.SessionUpdate():
                yield from self._update(event.session, None)
            case events.TranscriptionSessionUpdate():
                yield from self._update(event.session, "transcription")
            case events.Commit():
                yield from self._commit()
            case events.Clear():
                self._uncommitted_samples, self._cleared = 0, self._spoken is not None
                yield wire.InputClear()
                yield from self._say({"type": "input_audio_buffer.cleared"})
            case events.ItemCreate():
                yield from self._create_item(event)
            case events.ItemRetrieve(item_id=item_id):
                item = self._item(item_id, "retrieve")
                yield from self._say({"type": "conversation.item.retrieved", "item": item.told()})
            case events.ItemDelete(item_id=item_id):
                yield from self._delete_item(item_id)
            case events.ItemTruncate():
                yield from self._truncate(event)
            case events.ResponseCreate():
                self._ask(event.response or events.ResponseParams())
            case events.ResponseCancel(response_id=response_id):
                yield from self._cancel(response_id)
            case events.OutputClear():
                text = "output_audio_buffer.clear is for WebRTC and SIP; send response.cancel"
                raise Unsupported(text, field="type")

    def tell(self, told: wire.Told) -> Iterator[str]:
        if self._ending is not None and not isinstance(told, wire.SpeechStarted | wire.MediaTime | wire.ReplyMade):
            yield from self._end_interrupted()
        for event in self._events(told):
            yield from self._say(event)

    def wishes(self) -> Iterator[wire.ClientMessage]:
        while self._asked and not self._is_busy:
            asked = self._asked.popleft()
            self._event_id = asked.event_id
            self._granted.append(asked)
            self._granting = asked
            yield asked.create
            self._granting = None

    def fault(self, error: VoicepipeError) -> Iterator[str]:
        refused, self._granting = self._granting, None
        if refused is not None:
            self._granted.remove(refused)
        yield from self._say({"type": "error", "error": error_object(error, self._event_id)})

    def is_fatal(self, error: ClientError) -> bool:
        """The rest leaves the session as it was."""
        return isinstance(error, TooLarge | SessionLimit)

    # --- the client

    def _append(self, event: events.Append) -> Iterator[Step]:
        pcm = self._inlet.take(event.audio, self._config.input_format)
        yield wire.AudioFrame(0, self._inlet.at_samples & wire.U32_MAX, pcm)
        self._inlet.on_taken(pcm)
        self._uncommitted_samples += len(pcm) // 2

    def _update(self, raw: dict[str, Any], kind: str | None) -> Iterator[Step]:
        beta = kind is not None or is_beta(raw) or (self._beta and "type" not in raw and "audio" not in raw)
        config = self._config.merged(raw, beta=beta, kind=kind)
        yield config.native()
        self._beta = self._beta or beta
        self._config = config
        yield from self._say({"type": "session.updated", "session": self._session()})

    def _commit(self) -> Iterator[Step]:
        had_ms = 1000 * self._uncommitted_samples // RATE_HZ
        if had_ms < MIN_COMMIT_MS or (not self._config.manual and self._spoken is None):
            text = f"there are {had_ms} ms of sound to commit, and {MIN_COMMIT_MS} ms are needed"
            if had_ms >= MIN_COMMIT_MS:
                text = "nobody has spoken in what there is to commit"
            raise Refusal("input_audio_buffer_commit_empty", text)
        self._uncommitted_samples = 0
        if not self._config.manual:
            yield wire.InputCommit()
            return
        item = _heard(self._new_id("item"))
        self._commits.append(item)
        yield from self._committed(item)  # first: the words may be known by now, and are told at once
        yield wire.InputCommit(even_empty=True)

    def _create_item(self, event: events.ItemCreate) -> Iterator[Step]:
        ident, after = event.item.id or self._new_id("item"), event.previous_item_id
        if self._conversation.find(ident) is not None:
            text = "Error adding item: an item with this id already exists"
            raise Refusal("item_create_duplicate_item_id", text, field="item.id")
        if after is not None and after != ROOT and self._conversation.find(after) is None:
            raise unknown_item("create", "previous_item_id")
        item = item_of(event.item, ident)
        yield message_for(item, None if after is None else self._conversation.line_before(after))
        before = self._conversation.add(item, after)
        for kind in ("added", "done"):
            told = {"type": f"conversation.item.{kind}", "previous_item_id": before, "item": item.told()}
            yield from self._say(told)

    def _delete_item(self, ident: str) -> Iterator[Step]:
        item = self._item(ident, "delete")
        if item.status == "in_progress" or item in self._commits:
            raise Refusal("item_delete_in_progress", "item_id: the item is not complete yet", field="item_id")
        if item.line is not None:
            yield wire.HistoryDelete(item.line)
        self._conversation.remove(item)
        yield from self._say({"type": "conversation.item.deleted", "item_id": ident})

    def _truncate(self, event: events.ItemTruncate) -> Iterator[Step]:
        item = self._item(event.item_id, "truncate")
        if item.role != "assistant" or item.epoch is None or not item.audio_ms:
            text = "item_id: only what the assistant has said aloud can be truncated"
            raise Refusal("invalid_value", text, field="item_id")
        if event.content_index:
            raise Refusal("invalid_value", "content_index: expected 0", field="content_index")
        if event.audio_end_ms > item.audio_ms:
            text = f"Audio content of {item.audio_ms:.0f}ms is already shorter than {event.audio_end_ms:.0f}ms"
            raise Refusal("invalid_value", text, field="audio_end_ms")
        yield wire.HistoryTruncate(item.epoch, event.audio_end_ms)
        for part in item.content:
            part.pop("transcript", None)
        at = {"item_id": item.id, "content_index": 0, "audio_end_ms": round(event.audio_end_ms)}
        yield from self._say({"type": "conversation.item.truncated", **at})

    def _ask(self, params: events.ResponseParams) -> None:
        kept = params.conversation != "none"
        if params.conversation not in (None, "auto", "none"):
            raise Unsupported("response.conversation: expected auto or none", field="response.conversation")
        if params.prompt is not None:
            raise Unsupported("response.prompt: stored prompts are not offered", field="response.prompt")
        asked = (*self._asked, *self._granted)
        if kept and (self._is_replying or any(one.terms.kept for one in asked)):
            which = "one that was asked for" if self._response is None else self._response.id
            raise Refusal(
                _ACTIVE, f"Conversation already has an active response in progress: {which}. Wait until it is done."
            )
        if len(asked) >= MAX_ASKED:
            raise Refusal("too_many_responses", f"{MAX_ASKED} responses are waited for already")
        terms = self._terms(params, kept=kept)
        self._asked.append(_Asked(self._create(params, terms), terms, self._event_id))

    def _terms(self, params: events.ResponseParams, *, kept: bool) -> Terms:
        terms = replace(Terms.of(self._config), kept=kept, metadata=params.metadata)
        modalities = params.output_modalities or params.modalities
        if modalities is not None:
            terms = replace(terms, spoken="audio" in modalities)
        most = params.max_output_tokens or params.max_response_output_tokens
        if most is not None:
            terms = replace(terms, max_tokens=most if isinstance(most, int) else None)
        if params.audio is not None and params.audio.output is not None:
            output = params.audio.output
            if output.format is not None:
                terms = replace(terms, format=format_of(output.format, "response.audio.output.format"))
            terms = replace(terms, voice=output.voice or terms.voice)
        if params.output_audio_format is not None:
            terms = replace(terms, format=BETA_FORMATS[params.output_audio_format])
        return terms

    def _create(self, params: events.ResponseParams, terms: Terms) -> wire.ReplyCreate:
        tools = None if params.tools is None else native_tools(events.tools_of(params.tools, "response.tools"))
        choice = params.tool_choice
        return wire.ReplyCreate(
            instructions=params.instructions,
            lines=None if params.input is None else tuple(self._line(item) for item in params.input),
            keep=terms.kept,
            reply_as="speech" if terms.spoken else "text",
            max_reply_tokens=terms.max_tokens,
            tools=tools,
            tool_choice=None if choice is None else events.choice_of(choice, "response.tool_choice"),
        )

    def _line(self, param: events.ItemParam) -> wire.HistoryLine:
        if param.type == "item_reference":
            item = self._conversation.find(param.id or "")
            if item is None:
                raise unknown_item("reference", "response.input")
            return line_of(item)
        return line_of(item_of(param, param.id or "input"))

    def _cancel(self, response_id: str | None) -> Iterator[Step]:
        response = self._response
        if response is not None and response_id in (None, response.id):
            response.cancelled = True
            yield wire.ReplyCancel()
            return
        if response is None and response_id is None and self._asked:
            asked = self._asked.popleft()
            never = Response(self._new_id("resp"), 0, 0, asked.terms, self._conversation)
            for event in (*never.created(), *never.done(reason="client_cancelled", failure=None, extension={})):
                yield from self._say(event)
            return
        raise Refusal("response_cancel_not_active", "Cancellation failed: no active response found")

    # --- the session

    def _events(self, told: wire.Told) -> Iterable[Event]:
        match told:
            case wire.AudioFrame(epoch, _, pcm):
                response = self._response_of(epoch)
                return () if response is None else response.on_audio(pcm)
            case wire.ReplyText(_, epoch, text):
                response = self._response_of(epoch)
                return () if response is None else response.on_text(text)
            case wire.ToolCall(_, epoch):
                response = self._response_of(epoch)
                return () if response is None else response.on_call(told, self._new_id("item"))
            case wire.ReplyDone(_, epoch):
                response = self._response_of(epoch)
                return () if response is None else response.on_end_of_output()
            case wire.ReplyMade():
                if self._response is not None and self._response.epoch == told.epoch:
                    self._response.made = told
            case wire.SessionReady():
                return self._opened(told)
            case wire.MediaTime(turn, at_ms):
                self._at_ms = {turn: at_ms}
            case wire.SpeechStarted(turn):
                return self._on_speech(turn or 0)
            case wire.TranscriptPartial(turn, stable):
                return self._on_partial(turn, stable)
            case wire.TranscriptFinal(turn, text):
                return self._on_final(turn, text)
            case wire.TurnCommitted(turn, epoch):
                return self._on_committed(turn, epoch)
            case wire.TurnReopened(turn):
                return self._on_reopened(turn)
            case wire.ReplyInterrupted():
                cancelled = self._response is not None and self._response.cancelled
                self._reason = "client_cancelled" if cancelled else "turn_detected"
            case wire.TurnEnded():
                return self._on_ended(told)
            case wire.Error(code, message):
                self._failure = code, message
            case wire.ReplyAcknowledged() | wire.Draining() | wire.Waiting() | wire.Refused():
                pass
        return ()

    def _opened(self, ready: wire.SessionReady) -> Iterator[Event]:
        self._ready = ready
        yield {"type": "session.created", "session": self._session()}
        if self._config.kind == "realtime":
            conversation = {"id": "conv_1", "object": "realtime.conversation"}
            yield {"type": "conversation.created", "conversation": conversation}

    def _on_speech(self, turn: int) -> Iterator[Event]:
        self._turn, self._reason = turn, None
        self._cleared = False
        self._spoken = _Spoken(turn, self._new_id("item"), self._at_ms.get(turn, 0))
        if not self._config.manual:
            yield _speech("started", "audio_start_ms", self._spoken.since_ms, self._spoken.item_id)
        yield from self._take_ending()

    def _on_partial(self, turn: int, stable: str) -> Iterator[Event]:
        """What was told is not taken back: only what is certain is."""
        spoken = self._spoken
        if spoken is None or spoken.turn != turn or self._config.manual or self._config.transcription is None:
            return
        if len(stable) > len(spoken.told) and stable.startswith(spoken.told):
            delta, spoken.told = stable[len(spoken.told) :], stable
            yield {**_transcription("delta", spoken.item_id), "delta": delta}

    def _on_final(self, turn: int, text: str) -> Iterator[Event]:
        """Before the commit it is what the turn says; after it, a correction, for those who look again."""
        if self._spoken is not None and self._spoken.turn == turn:
            self._spoken.text = text
        elif (item := self._of_turn.get(turn)) is not None:
            item.content = [{"type": "input_audio", "transcript": text}]
        return iter(())

    def _on_committed(self, turn: int, epoch: int) -> Iterator[Event]:
        self._turn, self._failure, self._reason = turn, None, None
        spoken, self._spoken = self._spoken, None
        if spoken is None or spoken.turn != turn:
            asked = self._granted.popleft()
            yield from self._respond(turn, epoch, asked.terms)
            return
        yield from self._take_back()
        yield from self._spoken_out(spoken, line=f"user-{turn}")
        if self._config.answers:
            yield from self._respond(turn, epoch, Terms.of(self._config))

    def _spoken_out(self, spoken: _Spoken, *, line: str | None) -> Iterator[Event]:
        """The turn has ended with these words; the client knows its item already where it has committed it."""
        text = spoken.text or ""
        end_ms = max(self._at_ms.get(spoken.turn, 0), spoken.since_ms)
        if self._commits:
            item = self._commits.popleft()
        else:
            item = _heard(spoken.item_id)
            yield _speech("stopped", "audio_end_ms", end_ms, item.id)
            self._uncommitted_samples = 0
            yield from self._item_committed(item)
        # Not before: clients add the transcript's event to what the item said. Who asks for the item has it.
        item.content, item.line = [{"type": "input_audio", "transcript": text}], line
        self._of_turn[spoken.turn] = item
        while len(self._of_turn) > 8:
            del self._of_turn[next(iter(self._of_turn))]
        if self._config.transcription is not None:
            usage = {"type": "duration", "seconds": (end_ms - spoken.since_ms) / 1000}
            yield {**_transcription("completed", item.id), "transcript": text, "usage": usage}

    def _take_back(self) -> Iterator[Event]:
        """Items of a commit that came too early: what is committed now says all of it."""
        replaced, self._replaced = self._replaced, []
        for item in replaced:
            if item in self._conversation:
                self._conversation.remove(item)
                yield {"type": "conversation.item.deleted", "item_id": item.id}

    def _on_reopened(self, turn: int) -> Iterator[Event]:
        since_ms = self._at_ms.get(turn, 0)
        self._spoken = _Spoken(turn, self._new_id("item"), since_ms)
        yield _speech("started", "audio_start_ms", since_ms, self._spoken.item_id)
        said = self._of_turn.pop(turn, None)
        response, self._response = self._response, None
        if said is not None:
            said.line = None
            self._replaced.append(said)
        if response is not None:
            if response.message is not None:
                response.message.line = None
                self._replaced.append(response.message)
            reason: Reason = "client_cancelled" if response.cancelled else "turn_detected"
            yield from response.done(reason=reason, failure=None, extension={"turn": turn, "reopened": True})

    def _on_ended(self, ended: wire.TurnEnded) -> Iterator[Event]:
        self._turn = None
        failure, self._failure = self._failure, None
        reason, self._reason = self._reason, None
        response, self._response = self._response, None
        spoken = self._spoken
        if spoken is not None and spoken.turn == ended.turn:
            self._spoken = None
            yield from self._unanswered(spoken, ended, failure)
        elif self._commits and response is None and ended.verdict == "empty":
            yield from self._spoken_out(_Spoken(ended.turn, "", text=""), line=None)
        if response is None:
            return
        if ended.verdict == "refused":
            failure = "turn_refused", f"the answer would have been late ({ended.reason}), and lateness is refused"
        done = list(response.done(reason=reason, failure=failure, extension=_extension(ended)))
        if reason == "turn_detected" and failure is None:
            self._ending = done
        else:
            yield from done

    def _unanswered(
        self, spoken: _Spoken, ended: wire.TurnEnded, failure: tuple[str, str] | None
    ) -> Iterator[Event]:
        """A turn that ends without a commit: there were no words, or they are not known."""
        if self._cleared:
            self._cleared = False
            if not self._config.manual:
                yield _speech("stopped", "audio_end_ms", self._at_ms.get(spoken.turn, 0), spoken.item_id)
            return
        if failure is None and ended.verdict == "interrupted":  # it made way for a reply
            return
        spoken.text = ""
        if failure is None:
            yield from self._spoken_out(spoken, line=None)
            return
        item_id = self._commits.popleft().id if self._commits else spoken.item_id
        if self._config.transcription is not None:
            code, message = failure
            error = {"type": "transcription_error", "code": code, "message": message, "param": None}
            yield {**_transcription("failed", item_id), "error": error}

    def _take_ending(self) -> Iterator[Event]:
        ending, self._ending = self._ending, None
        yield from ending or ()

    # --- inner

    @property
    def _is_busy(self) -> bool:
        """Whether a reply that is asked for now would cut something off. What is said without a commit waits."""
        if self._commits or self._granted:
            return True
        spoken = self._spoken
        waits = self._config.manual and spoken is not None and spoken.turn == self._turn
        return self._turn is not None and not waits

    @property
    def _is_replying(self) -> bool:
        return self._response is not None

    def _response_of(self, epoch: int) -> Response | None:
        response = self._response
        return response if response is not None and response.epoch == epoch else None

    def _respond(self, turn: int, epoch: int, terms: Terms) -> Iterator[Event]:
        ident = f"resp_{self._name}_{turn}_{epoch}"
        self._response = Response(ident, turn, epoch, terms, self._conversation)
        yield from self._response.created()

    def _committed(self, item: Item) -> Iterator[str]:
        for event in self._item_committed(item):
            yield from self._say(event)

    def _item_committed(self, item: Item) -> Iterator[Event]:
        before = self._conversation.add(item)
        yield {"type": "input_audio_buffer.committed", "previous_item_id": before, "item_id": item.id}
        for kind in ("added", "done"):
            yield {"type": f"conversation.item.{kind}", "previous_item_id": before, "item": item.told()}

    def _item(self, ident: str, verb: str) -> Item:
        item = self._conversation.find(ident)
        if item is None:
            raise unknown_item(verb)
        return item

    def _session(self) -> dict[str, Any]:
        ready = self._ready
        extension: dict[str, Any] = {"operating_point": self._config.operating_point}
        if ready is not None:
            extension |= {"budget_ms": ready.budget_ms, "achievable_ms": ready.achievable_ms}
        return self._config.told(f"sess_{self._name}", extension)

    @property
    def _name(self) -> str:
        return "" if self._ready is None else self._ready.session

    def _new_id(self, kind: str) -> str:
        self._serial += 1
        return self._conversation.free(f"{kind}_{self._name}_n{self._serial}")

    def _end_interrupted(self) -> Iterator[str]:
        for event in self._take_ending():
            yield from self._say(event)

    def _say(self, event: Event) -> Iterator[str]:
        assert SERVER_EVENTS[event["type"]] == "supported"
        self._serial += 1
        told: Event | None = {**event, "event_id": f"event_{self._name}_{self._serial}"}
        if self._beta:
            told = to_beta(told or {})
        if told is not None:
            yield msgspec.json.encode(told).decode()


def _heard(ident: str) -> Item:
    """What the user has said, before its words are told."""
    return Item(ident, role="user", content=[{"type": "input_audio", "transcript": None}])


def _transcription(kind: str, item_id: str) -> Event:
    return {"type": f"conversation.item.input_audio_transcription.{kind}", "item_id": item_id, "content_index": 0}


def _extension(ended: wire.TurnEnded) -> Event:
    """The verdict and where the time went, as the native dialect has it."""
    told: Event = msgspec.to_builtins(ended)
    del told["type"]
    return told


def _speech(kind: str, field: str, at_ms: int, item_id: str) -> Event:
    return {"type": f"input_audio_buffer.speech_{kind}", field: at_ms, "item_id": item_id}
