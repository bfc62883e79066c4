"""What a server says of itself when it can be used."""

from __future__ import annotations

from ipaddress import ip_address

from voicepipe.app import Serving
from voicepipe.config import Config


def ready_text(config: Config, served: Serving) -> str:
    warm = served.warm
    spans = {"decode": warm.final_s, "think": warm.clause_s, "speak": warm.audio_s}
    if served.engines.turn_model is not None:
        spans["judge"] = warm.judge_s
    parts = ", ".join(f"{name} {1000 * span_s:.0f} ms" for name, span_s in spans.items())
    scheme = "wss" if config.tls_cert else "ws"
    text = (
        f"ready: {scheme}://{authority(config.host, served.server.port)}/v1/voice; an unhurried turn takes "
        f"{served.achievable_ms:.0f} ms here ({parts}; measured for {served.warmed_s:.1f} s), "
        f"the budget is {config.budget_ms:.0f} ms"
    )
    if served.achievable_ms > config.budget_ms:
        text += "; turns that are not begun ahead will miss it"
    if (
        config.admission.policy == "deadline"
        and 1000 * warm.total_s > config.budget_ms
        and config.limits.max_sessions > 1
    ):
        text += ", so that --admission deadline takes one session at a time"
    return text


def authority(host: str, port: int) -> str:
    """As it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_local(host: str) -> bool:
    """Can nobody but this machine reach it?"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
