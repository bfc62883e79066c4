"""GA events as clients of the beta protocol know them."""

from __future__ import annotations

from typing import Any, Final

from voicepipe.wire.realtime.names import BETA_LACKS, BETA_NAMES
from voicepipe.wire.realtime.sound import BETA_FORMATS

TEMPERATURE: Final = 0.8
"""What the beta protocol says where nobody has said anything; there is no such field in GA."""
_FORMATS: Final = {ga: beta for beta, ga in BETA_FORMATS.items()}
_PARTS: Final = {"output_text": "text", "output_audio": "audio"}


def to_beta(event: dict[str, Any]) -> dict[str, Any] | None:
    """None for an event that the beta protocol lacks."""
    if event["type"] in BETA_LACKS:
        return None
    renamed = {**event, "type": BETA_NAMES.get(event["type"], event["type"])}
    if "item" in event:
        renamed["item"] = _item(event["item"])
    if "response" in event:
        renamed["response"] = _response(event["response"])
    if "session" in event:
        renamed["session"] = _session(event["session"])
        if event["session"]["type"] == "transcription" and event["type"] != "error":
            renamed["type"] = f"transcription_{event['type']}"
    return renamed


def _item(item: dict[str, Any]) -> dict[str, Any]:
    if "content" not in item:
        return item
    return {**item, "content": [{**p, "type": _PARTS.get(p["type"], p["type"])} for p in item["content"]]}


def _modalities(given: list[str]) -> list[str]:
    return ["audio", "text"] if "audio" in given else ["text"]


def _response(response: dict[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in response.items() if key not in ("audio", "output_modalities")}
    output = response["audio"]["output"]
    return flat | {
        "output": [_item(item) for item in response["output"]],
        "modalities": _modalities(response["output_modalities"]),
        "output_audio_format": _FORMATS[output["format"]["type"]],
        "voice": output["voice"],
        "temperature": TEMPERATURE,
    }


def _session(session: dict[str, Any]) -> dict[str, Any]:
    source = session["audio"]["input"]
    flat = {
        "id": session["id"],
        "object": session["object"],
        "input_audio_format": _FORMATS[source["format"]["type"]],
        "input_audio_transcription": source["transcription"],
        "input_audio_noise_reduction": source["noise_reduction"],
        "turn_detection": source["turn_detection"],
        "voicepipe": session["voicepipe"],
    }
    if session["type"] == "transcription":
        return flat | {"modalities": ["text"]}
    output = session["audio"]["output"]
    return flat | {
        "model": session["model"],
        "instructions": session["instructions"],
        "modalities": _modalities(session["output_modalities"]),
        "output_audio_format": _FORMATS[output["format"]["type"]],
        "voice": output["voice"],
        "speed": output["speed"],
        "tools": session["tools"],
        "tool_choice": session["tool_choice"],
        "temperature": TEMPERATURE,
        "max_response_output_tokens": session["max_output_tokens"],
        "tracing": session["tracing"],
    }
