"""`same-rps`: one rate of requests, three lengths of answer, and the devices that each needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from random import Random

from voicepipe.sim.demand import demand
from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Series, Setting
from voicepipe.sim.gpu import SMALL
from voicepipe.sim.shapes import Objective, Shape
from voicepipe.sim.sizing import devices_needed
from voicepipe.sim.spread import Spread
from voicepipe.sim.traffic import Turn, traffic

PROMPT_TOKENS = 2_000
OUTPUT_TOKENS = (300, 2_000, 8_000)
OBJECTIVE = Objective(first_token_s=2.0, token_s=0.04)
MEAN_TOKEN_S = 0.02
"""What a token is expected to take, to run for several times as long as an answer does."""


def _shape(output_tokens: int, requests_s: float) -> Shape:
    """Single turns, nothing shared; lengths vary by a fifth."""
    sigma = 0.2
    return Shape(
        name=f"{output_tokens}-tokens",
        about="",
        requests_s=requests_s,
        arrivals="poisson",
        burstiness=1.0,
        turns=Spread("constant", 1),
        shared_prefix_tokens=0,
        prompt_tokens=Spread("constant", PROMPT_TOKENS),
        thinking_tokens=Spread("constant", 0),
        answer_tokens=Spread("lognormal", output_tokens, sigma),
        gap_s=Spread("constant", 0),
        tool_share=0.0,
        tool_s=Spread("constant", 0),
        image=None,
        objective=OBJECTIVE,
    )


def _seconds(output_tokens: int, setting: Setting) -> float:
    return (5 if setting.full else 2.5) * max(60.0, output_tokens * MEAN_TOKEN_S)


def _turns(output_tokens: int, seed: int, setting: Setting) -> list[Turn]:
    """The same instants for each length, as far as they go."""
    shape = _shape(output_tokens, 48.0 if setting.full else 24.0)
    return traffic(shape, _seconds(output_tokens, setting), Random(seed))


def points(setting: Setting) -> Sequence[Point]:
    return [{"output_tokens": tokens} for tokens in OUTPUT_TOKENS]


def run(point: Point, seed: int, setting: Setting) -> Measured:
    tokens = int(point["output_tokens"])
    turns = _turns(tokens, seed, setting)
    needs = demand(turns, _seconds(tokens, setting), SMALL, OBJECTIVE)
    found = devices_needed(turns, {turns[0].shape: OBJECTIVE}, SMALL, max(1, ceil(needs.devices)), "least-busy")
    return {
        "devices": found,
        "busy_devices": needs.devices,
        "prefill_ms_per_request": 1000 * needs.prefill_s / needs.requests,
        "decode_ms_per_request": 1000 * needs.decode_s / needs.requests,
        "kv_gb_s_per_request": needs.kv_gb_s / needs.requests,
    }


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    places = tuple(float(place) for place in range(len(rows)))

    def bars(name: str, column: str) -> Series:
        kept = [(place, row) for place, row in zip(places, rows, strict=True) if row[column] is not None]
        return Series(
            name,
            tuple(place for place, _ in kept),
            tuple(_number(row, column) for _, row in kept),
            tuple(_number(row, f"{column}_low", column) for _, row in kept),
            tuple(_number(row, f"{column}_high", column) for _, row in kept),
            "bars",
        )

    categories = tuple(f"{row['output_tokens']:g} tokens" for row in rows)
    first = next((row for row in rows if row["devices"] is not None), None)
    marks = (Mark("y", _number(first, "devices"), "devices for the shortest answers"),) if first is not None else ()
    return [
        Chart(
            title="The same requests per second, and the devices they need by the length of their answers",
            x="length of the answers",
            y="devices",
            series=(
                bars("with queues, simulated", "devices"),
                bars("busy all the time, by formula", "busy_devices"),
            ),
            marks=marks,
            categories=categories,
        ),
        Chart(
            title="What a request takes of a device: its prompt is the same, its answer is not",
            x="length of the answers",
            y="device time per request (ms)",
            series=tuple(
                replace(bars(name, column), kind="stack", lows=(), highs=())
                for name, column in (("prompt", "prefill_ms_per_request"), ("answer", "decode_ms_per_request"))
            ),
            categories=categories,
        ),
    ]


def _number(row: Row, *names: str) -> float:
    return float(next(value for name in names if (value := row.get(name)) is not None))


EXPERIMENT = Experiment(
    name="same-rps",
    question="One rate of requests and three lengths of answer: how many devices does each need?",
    explanation=(
        "A rate of requests says little about the devices that it needs. Requests arrive at one rate, each "
        f"with a prompt of {PROMPT_TOKENS:,} tokens, and are answered with about {OUTPUT_TOKENS[0]:,}, "
        f"{OUTPUT_TOKENS[1]:,} or {OUTPUT_TOKENS[2]:,} tokens. For each length the fewest replicas are searched "
        "by simulation with which 95 % of the requests have their first token within "
        f"{OBJECTIVE.first_token_s:g} s and a further one every {OBJECTIVE.token_s * 1000:g} ms in the mean. "
        "From the shortest to the longest answers devices are busy for about eight times as long, and with "
        "queues and whole devices about seven times as many are needed: less than the lengths differ, because "
        "the prompt costs the same and many sequences share a step. The second picture shows what of a request "
        "is its prompt and what its answer."
    ),
    points=points,
    run=run,
    charts=charts,
)
