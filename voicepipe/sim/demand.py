"""What a second of some workload needs of devices: time for prompts and for tokens, memory for a time, and what a
cache of prefixes saves. From formulas alone, of turns as they come; queues are what simulation is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voicepipe.sim.gpu import Gpu
from voicepipe.sim.shapes import Objective
from voicepipe.sim.traffic import READ_TOKEN_S, Turn

CONSTRAINTS = ("decode", "prefill", "memory", "latency")


@dataclass(frozen=True, slots=True)
class Demand:
    """Each per second: of device time that is a number of devices, busy all the time."""

    requests: float
    decode_s: float
    """At the batch that memory and slots allow."""
    prefill_s: float
    """Of what no earlier turn has shown."""
    saved_s: float
    """The value of the cache: of prompts that would have to be computed without it, on top of `prefill_s`."""
    kv_gb_s: float
    """Of context, while requests run."""
    idle_gb_s: float
    """Of context that waits for its session's next turn, if it is held."""
    memory_devices: float
    """Whose memory is full of running requests; 0 where slots end before memory does."""
    latency_devices: float
    """Busy all the time with batches no larger than the objective allows; 0 where it allows any."""

    @property
    def devices(self) -> float:
        """The fewest, if nothing ever waited."""
        return max(self.busy_devices, self.latency_devices)

    @property
    def busy_devices(self) -> float:
        """No fewer can do it, whenever it may be done."""
        return max(self.decode_s + self.prefill_s, self.memory_devices)

    @property
    def bound_by(self) -> str:
        """What decides it, of `CONSTRAINTS`."""
        if self.latency_devices > self.busy_devices:
            return "latency"
        if self.prefill_s > self.decode_s:
            return "prefill"
        return "memory" if self.memory_devices else "decode"


def context_tokens(turn: Turn) -> float:
    """While it is answered, in the mean."""
    return turn.prompt_tokens + turn.output_tokens / 2


def demand(turns: Sequence[Turn], seconds: float, gpu: Gpu, objective: Objective | None = None) -> Demand:
    outputs = sum(turn.output_tokens for turn in turns)
    if not outputs:
        return Demand(0, 0, 0, 0, 0, 0, 0, 0)
    context = sum(context_tokens(turn) * turn.output_tokens for turn in turns) / outputs
    fitting = gpu.kv_tokens / context
    batch = min(float(gpu.slots), fitting)
    token_s = gpu.step_s / batch + gpu.context_token_s * context
    known = sum(turn.prefix_tokens + turn.history_tokens for turn in turns)
    new = sum(turn.new_tokens for turn in turns)
    kv_gb_s = gpu.kv_gb_of(context) * outputs * token_s * batch / seconds
    decode_s, prefill_s = outputs * token_s / seconds, gpu.prefill_s(new) / seconds
    allowed = _allowed_batch(gpu, objective, context, new / len(turns)) if objective is not None else batch
    timely_s = outputs * (gpu.step_s / allowed + gpu.context_token_s * context) / seconds
    return Demand(
        requests=len(turns) / seconds,
        decode_s=decode_s,
        prefill_s=prefill_s,
        saved_s=gpu.prefill_s(known) / seconds,
        kv_gb_s=kv_gb_s,
        idle_gb_s=_idle_gb_s(turns, gpu) / seconds,
        memory_devices=kv_gb_s / gpu.kv_gb if fitting < gpu.slots else 0.0,
        latency_devices=timely_s + prefill_s if allowed < batch else 0.0,
    )


def _allowed_batch(gpu: Gpu, objective: Objective, context: float, new_tokens: float) -> float:
    """The most sequences beside which a token, and a first clause, are in time: half a step until it begins, its
    prompt with the first token, and a step for each further one."""
    step_s = objective.token_s
    if objective.clause_s is not None:
        step_s = min(step_s, (objective.clause_s - gpu.prefill_s(new_tokens)) / (objective.clause_tokens + 0.5))
    return max(1.0, (step_s - gpu.step_s) / (gpu.context_token_s * context))


def _idle_gb_s(turns: Sequence[Turn], gpu: Gpu) -> float:
    """From the end that a reply was meant to have, to the session's next turn."""
    last, total = dict[str, Turn](), 0.0
    for turn in turns:
        before = last.get(turn.session)
        if before is not None:
            idle_s = turn.at_s - before.at_s - READ_TOKEN_S * before.output_tokens
            total += gpu.kv_gb_of(before.prompt_tokens + before.output_tokens) * max(0.0, idle_s)
        last[turn.session] = turn
    return total
