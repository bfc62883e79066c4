"""Every event of the GA protocol, and what becomes of it here; for people it is in `docs/openai-realtime.md`."""

from __future__ import annotations

from typing import Final, Literal

Fate = Literal["supported", "ignored", "refused", "not sent"]

CLIENT_EVENTS: Final[dict[str, Fate]] = {
    "session.update": "supported",
    "input_audio_buffer.append": "supported",
    "input_audio_buffer.commit": "supported",
    "input_audio_buffer.clear": "supported",
    "conversation.item.create": "supported",
    "conversation.item.retrieve": "supported",
    "conversation.item.delete": "supported",
    "conversation.item.truncate": "supported",
    "response.create": "supported",
    "response.cancel": "supported",
    "output_audio_buffer.clear": "refused",
}

SERVER_EVENTS: Final[dict[str, Fate]] = {
    "error": "supported",
    "session.created": "supported",
    "session.updated": "supported",
    "conversation.created": "supported",
    "conversation.item.added": "supported",
    "conversation.item.created": "not sent",
    "conversation.item.deleted": "supported",
    "conversation.item.done": "supported",
    "conversation.item.input_audio_transcription.completed": "supported",
    "conversation.item.input_audio_transcription.delta": "supported",
    "conversation.item.input_audio_transcription.failed": "supported",
    "conversation.item.input_audio_transcription.segment": "not sent",
    "conversation.item.retrieved": "supported",
    "conversation.item.truncated": "supported",
    "input_audio_buffer.cleared": "supported",
    "input_audio_buffer.committed": "supported",
    "input_audio_buffer.dtmf_event_received": "not sent",
    "input_audio_buffer.speech_started": "supported",
    "input_audio_buffer.speech_stopped": "supported",
    "input_audio_buffer.timeout_triggered": "not sent",
    "mcp_list_tools.completed": "not sent",
    "mcp_list_tools.failed": "not sent",
    "mcp_list_tools.in_progress": "not sent",
    "output_audio_buffer.cleared": "not sent",
    "output_audio_buffer.started": "not sent",
    "output_audio_buffer.stopped": "not sent",
    "rate_limits.updated": "not sent",
    "response.content_part.added": "supported",
    "response.content_part.done": "supported",
    "response.created": "supported",
    "response.done": "supported",
    "response.function_call_arguments.delta": "supported",
    "response.function_call_arguments.done": "supported",
    "response.mcp_call.completed": "not sent",
    "response.mcp_call.failed": "not sent",
    "response.mcp_call.in_progress": "not sent",
    "response.mcp_call_arguments.delta": "not sent",
    "response.mcp_call_arguments.done": "not sent",
    "response.output_audio.delta": "supported",
    "response.output_audio.done": "supported",
    "response.output_audio_transcript.delta": "supported",
    "response.output_audio_transcript.done": "supported",
    "response.output_item.added": "supported",
    "response.output_item.done": "supported",
    "response.output_text.delta": "supported",
    "response.output_text.done": "supported",
}

BETA_CLIENT_EVENTS: Final = ("transcription_session.update",)
BETA_NAMES: Final = {
    "conversation.item.added": "conversation.item.created",
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
}
BETA_LACKS: Final = ("conversation.item.done",)
