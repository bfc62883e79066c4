"""`vision-pool`: pictures are encoded before a prompt can be read, by devices of their own."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from voicepipe.sim.experiment import Chart, Experiment, Mark, Measured, Point, Row, Setting, series_of
from voicepipe.sim.gpu import SMALL
from voicepipe.sim.replicas import Replicas
from voicepipe.sim.requests import Request, request_of
from voicepipe.sim.shapes import Shape, shipped_shapes
from voicepipe.sim.summary import mean, quantile, warm
from voicepipe.sim.timeline import Timeline
from voicepipe.sim.traffic import Turn, traffic

REPLICAS = 5
"""Of the language model."""
ENCODE_S, ENCODED_TOKENS_S = 0.005, 20_000
"""Of one picture: so long, and so many of its tokens a second. There is nothing to decode, and no batch helps."""
CACHED_PICTURES = 1_000
ENCODERS = (1, 2, 4)
REPEATS = (0.0, 0.3, 0.6, 0.9)
REQUESTS_S = 3.4


def encode_s(tokens: int) -> float:
    return ENCODE_S + tokens / ENCODED_TOKENS_S


@dataclass(slots=True)
class Encoders:
    """Some devices with one queue, and what pictures they have encoded last, by hash. None is encoded twice at
    once."""

    timeline: Timeline
    count: int
    busy: int = 0
    busy_s: float = 0.0
    asked: int = 0
    hits: int = 0
    _queue: deque[tuple[int, int]] = field(default_factory=deque)
    _waiting: dict[int, list[Callable[[], None]]] = field(default_factory=dict)
    _cache: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def encode(self, picture: int, tokens: int, then: Callable[[], None]) -> None:
        """`then` is called at once where it is remembered."""
        self.asked += 1
        if picture in self._cache:
            self.hits += 1
            self._cache.move_to_end(picture)
            then()
        elif picture in self._waiting:
            self.hits += 1
            self._waiting[picture].append(then)
        else:
            self._waiting[picture] = [then]
            self._queue.append((picture, tokens))
            self._begin()

    def _begin(self) -> None:
        while self._queue and self.busy < self.count:
            picture, tokens = self._queue.popleft()
            self.busy += 1
            self.busy_s += encode_s(tokens)
            self.timeline.after(encode_s(tokens), partial(self._done, picture))

    def _done(self, picture: int) -> None:
        self.busy -= 1
        self._cache[picture] = None
        if len(self._cache) > CACHED_PICTURES:
            self._cache.popitem(last=False)
        for then in self._waiting.pop(picture):
            then()
        self._begin()


def _shape(repeats: float) -> Shape:
    shape = shipped_shapes()["vision"]
    assert shape.image is not None
    return replace(shape, image=replace(shape.image, repeats=repeats))


def picture_tokens() -> int:
    """Of one picture of the shape, crops included."""
    image = shipped_shapes()["vision"].image
    assert image is not None
    return image.tokens


def _named(count: int) -> str:
    return "1 encoder" if count == 1 else f"{count} encoders"


def points(setting: Setting) -> Sequence[Point]:
    return [{"encoders": _named(count), "repeats": repeats} for count in ENCODERS for repeats in REPEATS]


def _encoded(turn: Turn, encoders: Encoders, replicas: Replicas) -> Request:
    """The request of a turn, which is submitted when its picture is encoded."""
    request = request_of(turn)

    def arrive() -> None:
        if turn.image is None:
            replicas.submit(request)
        else:
            encoders.encode(turn.image, turn.image_tokens, partial(replicas.submit, request))

    encoders.timeline.at(turn.at_s, arrive)
    return request


def run(point: Point, seed: int, setting: Setting) -> Measured:
    seconds = 1200.0 if setting.full else 240.0
    turns = traffic(_shape(float(point["repeats"])), seconds, Random(seed), REQUESTS_S)
    timeline = Timeline()
    encoders = Encoders(timeline, int(str(point["encoders"]).split()[0]))
    replicas = Replicas(timeline, SMALL, REPLICAS)
    requests = [_encoded(turn, encoders, replicas) for turn in turns]
    timeline.run()
    counted = warm(requests, seconds / 4)
    first_s = [request.first_token_s for request in counted]
    waits_s = [request.submitted_s - request.arrived_s for request in counted]
    return {
        "hit_rate": encoders.hits / encoders.asked,
        "first_token_p50_s": quantile(first_s, 0.5),
        "first_token_p95_s": quantile(first_s, 0.95),
        "encoding_p95_s": quantile(waits_s, 0.95),
        "encoders_busy": encoders.busy_s / (encoders.count * timeline.now),
        "read_per_written": sum(one.prefilled_tokens for one in counted)
        / sum(request.output_tokens for request in counted),
        "image_tokens": mean(turn.image_tokens for turn in turns),
    }


def charts(rows: Sequence[Row]) -> Sequence[Chart]:
    limit_s = shipped_shapes()["vision"].objective.first_token_s
    return [
        Chart(
            title="Remembered pictures and further encoders do the same: nobody waits for the encoder",
            x="pictures found in the cache (share)",
            y="time to first token, p95 (s)",
            series=series_of(rows, "encoders", "hit_rate", "first_token_p95_s"),
            marks=(Mark("y", limit_s, f"objective: {limit_s:g} s"),),
            log_y=True,
        ),
        Chart(
            title="How much of the encoders is used",
            x="pictures found in the cache (share)",
            y="encoders busy (share)",
            series=series_of(rows, "encoders", "hit_rate", "encoders_busy"),
            marks=(Mark("y", 1.0, "all of the time"),),
        ),
        Chart(
            title="Of a picture, some thirty tokens are read for each one that is written",
            x="pictures found in the cache (share)",
            y="tokens read per token written",
            series=series_of(rows, "encoders", "hit_rate", "read_per_written"),
        ),
    ]


EXPERIMENT = Experiment(
    name="vision-pool",
    question="Pictures before a prompt: how many encoders, and what does remembering pictures save?",
    explanation=(
        f"A picture of 1024 x 1024 pixels and its crops are {picture_tokens():,} tokens, which an encoder turns "
        f"into a prompt's in {1000 * encode_s(picture_tokens()):.0f} ms; then one of {REPLICAS} replicas reads "
        "it, and writes a short answer: thirty tokens read for each one written, so that the replicas are "
        "bound by prompts. Encoders are a pool of their own with one queue, and remember the last "
        f"{CACHED_PICTURES:,} pictures by hash; how many of the pictures have been shown before is varied, and "
        "so is the number of encoders. The first picture sets the time to first token against the share of "
        "pictures that were remembered, the second shows how busy the encoders are: with a single one the "
        "queue before it is what is waited for until most pictures are remembered, while of further ones only "
        "the second makes a difference."
    ),
    points=points,
    run=run,
    charts=charts,
)
