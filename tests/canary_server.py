"""A server whose every logger says all it can: `python -m tests.canary_server LEDGER TRACE [LLM_URL]`.

Its words, its tokens and its key hold CANARY. A prompt with FAIL in it makes its model raise an error that quotes
the prompt; a prompt with CALL in it makes it call a tool. With LLM_URL the model is behind that instead.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from voicepipe.api import ApiSettings
from voicepipe.app import serving
from voicepipe.config import AdmissionConfig, Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.base import Engines, Prompt
from voicepipe.engines.openai_chat import OpenAiChat
from voicepipe.engines.scripted import ScriptedGeneration, ScriptedLlm
from voicepipe.engines.table import load
from voicepipe.listener import ApiListener
from voicepipe.recorders import open_recorders

CANARY = "xylofonkanarie"
TOKEN = f"{CANARY}-token"
TWILIO_TOKEN = f"{CANARY}-twilio"
METRICS_TOKEN = f"{CANARY}-metrics"
SCRIPT = ScriptedConfig(
    transcripts=(f"I have said {CANARY}.",),
    reply=f"An answer about {CANARY}.",
    calls=(f'find {{"what": "{CANARY}"}}',),
)
CONFIG = Config(
    port=0,
    engines=EnginesConfig(kind="scripted", scripted=SCRIPT, text_slots=2),
    limits=LimitsConfig(max_sessions=8, grace_s=0.5),
    admission=AdmissionConfig(policy="count"),
)


class QuotingGeneration(ScriptedGeneration):
    """Its errors hold the prompt, as those of libraries do."""

    text: str

    async def step(self, *args: Any, **more: Any) -> Any:
        raise ValueError(f"cannot parse {self.text}")


class QuotingLlm(ScriptedLlm):
    def generation(self, prompt: Prompt) -> ScriptedGeneration:
        made = super().generation(prompt)
        text = " ".join(message.content for message in prompt.messages)
        if "FAIL" in text:
            made.__class__, made.text = QuotingGeneration, text  # type: ignore[attr-defined]
        return made


def everything_is_logged() -> None:
    """By whatever has a logger by now, and by those that are known to talk."""
    logging.root.setLevel(logging.DEBUG)
    talkers = {"asyncio", "httpx", "httpcore", "uvicorn.error", "uvicorn.access", "websockets.server"}
    for name in {*logging.root.manager.loggerDict, *talkers}:
        logging.getLogger(name).setLevel(logging.DEBUG)


def engines(url: str) -> Engines:
    made = load(CONFIG.engines, None, sessions=8, api_key=None)
    llm: Any = OpenAiChat(url, "m", api_key=f"{CANARY}-key") if url else QuotingLlm(SCRIPT, 8)
    return replace(made, llm=llm)


async def main(ledger: str, trace: str, url: str = "") -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    api = ApiListener("127.0.0.1", 0, ApiSettings(256))
    secrets: dict[str, Any] = {"metrics_token": METRICS_TOKEN, "twilio_token": TWILIO_TOKEN}
    with open_recorders(Path(ledger), Path(trace), None) as recorders:
        async with serving(
            CONFIG, lambda: engines(url), tokens={TOKEN: "kiosk"}, recorders=recorders, api=api, **secrets
        ) as served:
            everything_is_logged()
            print(served.server.port, api.port, flush=True)
            await done.wait()


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    everything_is_logged()
    asyncio.run(main(*sys.argv[1:]), debug=True)
