"""Nine numbers that have to come out, each by the formula that the simulator goes by.

kv_gb         16,000 tokens at 0.33 MB (80 layers x 8 KV heads x 128 x 2 x 2 bytes)
hold_gb_s     held for 2.5 s
reprefill_s   computed again at 8,000 tokens a second
offload_s     to the host and back at 25 GB/s each way
slot_ratio    a turn of 2,000 tokens holds its slot so many times as long as one of 200: the engine, run
ttfat_s       time to the first token of an answer: to the first token at all, here 0, and 10,000 of thought at
              80 a second
image_tokens  of 1024 x 1024 pixels in patches of 28
cold_s        an agent's tenth turn, 25,000 tokens, with nothing in memory
warm_s        the same with all but 1,500 in memory
"""

from __future__ import annotations

from dataclasses import replace

from voicepipe.sim.batching import Engine
from voicepipe.sim.gpu import A100, Gpu
from voicepipe.sim.requests import Request
from voicepipe.sim.shapes import image_tokens
from voicepipe.sim.timeline import Timeline

CONTEXT_TOKENS = 16_000
HELD_S = 2.5
THOUGHT_TOKENS, TOKENS_S = 10_000, 80
AGENT_TOKENS, AGENT_NEW_TOKENS = 25_000, 1_500


def golden() -> dict[str, float]:
    kv_gb = A100.kv_gb_of(CONTEXT_TOKENS)
    return {
        "kv_gb": kv_gb,
        "hold_gb_s": hold_gb_s(kv_gb, HELD_S),
        "reprefill_s": A100.prefill_s(CONTEXT_TOKENS),
        "offload_s": offload_s(A100, kv_gb),
        "slot_ratio": slot_ratio(2_000, 200),
        "ttfat_s": first_answer_s(0.0, THOUGHT_TOKENS, 1 / TOKENS_S),
        "image_tokens": image_tokens(1024, 1024),
        "cold_s": A100.prefill_s(AGENT_TOKENS),
        "warm_s": A100.prefill_s(AGENT_NEW_TOKENS),
    }


def hold_gb_s(kv_gb: float, seconds: float) -> float:
    return kv_gb * seconds


def offload_s(gpu: Gpu, kv_gb: float) -> float:
    """There and back."""
    return 2 * gpu.copy_s(kv_gb)


def first_answer_s(first_token_s: float, thinking_tokens: int, token_s: float) -> float:
    return first_token_s + thinking_tokens * token_s


def slot_ratio(longer_tokens: int, shorter_tokens: int) -> float:
    """Of the times for which an engine whose steps are all alike has them in a slot."""
    alike = replace(A100, sequence_s=0.0, prompt_token_s=0.0)
    return slot_s(alike, longer_tokens) / slot_s(alike, shorter_tokens)


def slot_s(gpu: Gpu, output_tokens: int, prompt_tokens: int = 1) -> float:
    """From a request's first step to its last, alone in an engine."""
    timeline, ended = Timeline(), list[Request]()
    Engine(timeline, gpu, ended.append).submit(Request(0.0, prompt_tokens, output_tokens))
    timeline.run()
    (request,) = ended
    assert request.started_s is not None and request.ended_s is not None
    return request.ended_s - request.started_s
