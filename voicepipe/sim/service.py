"""What chunks take: per kind and variant a line over what there is to do, times a ratio drawn from what was seen.

    service = (base + per_unit * units + per_context * context) * ratio

Units and context are those of `core.cost.Size`. The ratios of a key are quantiles of actual to mean, evenly spread
from the least to the largest, so that drawing from them is drawing from what was measured. Beside the chunks stand
the times around them: from a lane's grant to the chunk's first instruction (`begin_s`), from its end to the loop's
taking it up (`end_s`), and from a frame of a reply to the socket (`send_s`).

A model is data, written by hand or by `sim.calibrate`, in JSON or TOML; those that are shipped lie in `presets/`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from voicepipe.config import ScriptedConfig
from voicepipe.core.background import TextSettings, text_variant
from voicepipe.core.events import Load, WorkKind
from voicepipe.errors import ConfigError
from voicepipe.sim.draws import drawn

NotNegative = Annotated[float, Meta(ge=0.0)]
Positive = Annotated[float, Meta(gt=0.0)]
Quantiles = Annotated[tuple[NotNegative, ...], Meta(min_length=1)]
"""Evenly spread from the least to the largest; one value: nothing varies."""
Ratios = Annotated[tuple[Positive, ...], Meta(min_length=1)]

TEXTS = TextSettings(model="")
"""As the server has them."""
PRESETS = Path(__file__).parent / "presets"


Need = tuple[WorkKind, str]
"""A kind of chunk, and a variant of it."""
TALK: tuple[Need, ...] = (
    (WorkKind.HEAR, ""),
    (WorkKind.PARTIAL, ""),
    (WorkKind.FINAL, ""),
    (WorkKind.THINK, "prefill"),
    (WorkKind.THINK, "decode"),
    (WorkKind.SPEAK, "first"),
    (WorkKind.SPEAK, "later"),
)
"""What conversations consist of."""
WRITING: tuple[Need, ...] = (
    (WorkKind.GENERATE, "split"),
    (WorkKind.GENERATE, "prefill"),
    *((WorkKind.GENERATE, text_variant(rows)) for rows in range(1, TEXTS.slots + 1)),
)
"""What texts that nobody waits to hear consist of, a slot for each of them."""


def need_in_words(need: Need) -> str:
    kind, variant = need
    return f"{kind.value} ({variant})" if variant else kind.value


class Cost(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Of one kind of chunk, and one variant of it. Seconds."""

    kind: WorkKind
    variant: str = ""
    """"" holds for all that have no line of their own."""
    base_s: NotNegative = 0.0
    per_unit_s: NotNegative = 0.0
    per_context_s: NotNegative = 0.0
    more_s: NotNegative = 0.0
    """For each unit of a further work in the same chunk (`Manner.write_batch`)."""
    ratios: Ratios = (1.0,)

    def mean_s(self, load: Load) -> float:
        return self.base_s + self.per_unit_s * load.units + self.per_context_s * load.context


class Manner(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How engines cut their work into chunks."""

    read_tokens: Annotated[int, Meta(ge=1)] = 512
    """Of a prompt that one chunk reads at most."""
    write_tokens: Annotated[int, Meta(ge=1)] = 4
    """That one step of a reply makes."""
    tokens_per_word: Positive = 1.3
    template_tokens: Annotated[int, Meta(ge=0)] = 4
    """Around every line of a conversation."""
    instruction_tokens: Annotated[int, Meta(ge=0)] = 24
    memory_tokens: Annotated[int, Meta(ge=0)] = 0
    """Of what was said before the newest line, so much is shown to the model, and half of it once there is more; 0:
    all of it."""
    keeps_prefix: bool = True
    """The model keeps what it has read; without that each reply reads all of its prompt."""
    write_batch: Annotated[int, Meta(ge=1)] = 1
    """Replies of which one chunk makes tokens, at most: it takes what the longest of them takes, and `Cost.more_s`
    for the tokens of each other one."""
    reading_writes: bool = False
    """What is read ahead ends with a token that is written."""
    small_share: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    """Of the model's times, that a smaller one takes; 0: there is none."""
    rechecks: bool = False
    """A decode of all that comes behind another one of the same turn has a price of its own."""
    text_reading: tuple[int, ...] = TEXTS.reading
    """Tokens that a chunk of a text may read."""
    text_writing: tuple[int, ...] = TEXTS.writing
    """Tokens of each text that a chunk may make."""
    rate_hz: Annotated[int, Meta(ge=8000)] = 24_000
    second_per_word: Positive = 0.3
    """Of speech."""
    piece_s: Positive = 0.8
    """Of audio, that one step of the voice makes."""
    first_piece_s: Positive = 0.8
    """The same of a clause's first step."""
    window_s: Positive = 28.0
    """Of sound, that a recogniser hears at most."""


class ServiceModel(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    name: str
    costs: Annotated[tuple[Cost, ...], Meta(min_length=1)]
    manner: Manner = Manner()
    sessions: Positive = 7.0
    """Under way at which, with everybody let in, one turn in a hundred is late: the load that a device carries."""
    lanes: Annotated[dict[str, Annotated[int, Meta(ge=1)]], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: {"device": 1, "ears": 1}
    )
    """Chunks at a time."""
    placement: dict[WorkKind, str] = {}
    """Where kinds run that do not run on the first lane."""
    begin_s: Quantiles = (0.0,)
    end_s: Quantiles = (0.0,)
    send_s: Quantiles = (0.0,)
    noticed_s: Quantiles = (0.03, 0.06)
    """How long after the end of speech the first silent frame of the detector begins."""

    def cost(self, kind: WorkKind, variant: str) -> Cost:
        """Raises ConfigError where the model has none."""
        found = self.find(kind, variant)
        if found is None:
            what = need_in_words((kind, variant))
            raise ConfigError(f"the service model {self.name!r} has no costs of {what} chunks", field="costs")
        return found

    def lacks(self, needs: Iterable[Need]) -> list[Need]:
        """Of those, what it has no costs of."""
        return [need for need in needs if self.find(*need) is None]

    def find(self, kind: WorkKind, variant: str) -> Cost | None:
        """The variant's own, else the kind's; WARM is priced as THINK, and a cold decode step as any other."""
        by_key = {(cost.kind, cost.variant): cost for cost in self.costs}
        kinds = (kind, WorkKind.THINK) if kind is WorkKind.WARM else (kind,)
        variants = (variant, "decode", "") if variant == "cold-decode" else (variant, "")
        return next((by_key[one, other] for one in kinds for other in variants if (one, other) in by_key), None)

    def lane_of(self) -> dict[WorkKind, str]:
        """Of every kind. Raises ConfigError where a lane is named that there is none of."""
        default = next(iter(self.lanes))
        placement = {kind: self.placement.get(kind, default) for kind in WorkKind}
        for kind, lane in placement.items():
            if lane not in self.lanes:
                raise ConfigError(
                    f"there is no lane {lane!r} for {kind.value} chunks", field=f"placement.{kind.value}"
                )
        return placement


class Times:
    """What a model says of a piece of work whose luck is known: shares in [0, 1), as `sim.draws` has them."""

    def __init__(self, model: ServiceModel) -> None:
        self.model = model
        self._costs: dict[tuple[WorkKind, str], Cost] = {}

    def service_s(self, kind: WorkKind, load: Load, share: float) -> float:
        """Raises ConfigError where the model has no costs of such chunks."""
        if load.variant == MADE:
            return 0.0
        key = (kind, load.variant)
        cost = self._costs.get(key)
        if cost is None:
            cost = self._costs[key] = self.model.cost(*key)
        service_s = cost.mean_s(load) * drawn(cost.ratios, share)
        return self.model.manner.small_share * service_s if load.model == SMALL else service_s

    def batch_s(self, works: Sequence[tuple[WorkKind, Load, float]]) -> float:
        """Several works in one chunk, each with its luck."""
        alone = [self.service_s(*work) for work in works]
        longest = max(range(len(works)), key=alone.__getitem__)
        more_s = 0.0
        for number, (kind, load, share) in enumerate(works):
            if number != longest:
                cost = self._costs[kind, load.variant]
                more_s += cost.more_s * load.units * drawn(cost.ratios, share)
        return alone[longest] + more_s

    def begin_s(self, share: float) -> float:
        return drawn(self.model.begin_s, share)

    def end_s(self, share: float) -> float:
        return drawn(self.model.end_s, share)

    def send_s(self, share: float) -> float:
        return drawn(self.model.send_s, share)


MADE = "made"
"""Variant of a piece of audio that is there already."""
MODEL, SMALL = "model", "model (small)"
"""Names in loads: of the language model, and of its smaller one, which has costs of its own."""


def scripted(config: ScriptedConfig) -> ServiceModel:
    """Scripted engines: what their configuration states, to the millisecond."""

    def cost(kind: WorkKind, ms: float, variant: str = "") -> Cost:
        return Cost(kind=kind, variant=variant, base_s=ms / 1000)

    per_token = Cost(kind=WorkKind.GENERATE, per_unit_s=config.llm_token_ms / 1000)
    return ServiceModel(
        name="scripted",
        costs=(
            cost(WorkKind.HEAR, 0.0),
            cost(WorkKind.PARTIAL, config.asr_ms),
            cost(WorkKind.FINAL, config.asr_ms),
            cost(WorkKind.SECOND_PASS, config.asr_ms),
            cost(WorkKind.JUDGE, config.turn_model_ms),
            cost(WorkKind.THINK, config.llm_prefill_ms, "prefill"),
            replace(cost(WorkKind.THINK, config.llm_token_ms, "decode"), more_s=config.llm_more_ms / 1000),
            cost(WorkKind.SPEAK, config.tts_ms),
            cost(WorkKind.GENERATE, 0.0, "split"),
            cost(WorkKind.GENERATE, config.llm_prefill_ms, "prefill"),
            per_token,
        ),
        manner=Manner(
            read_tokens=1_000_000,
            write_tokens=1,
            write_batch=config.llm_batch,
            tokens_per_word=1.0,
            reading_writes=True,
            piece_s=config.tts_piece_ms / 1000,
            first_piece_s=config.tts_piece_ms / 1000,
        ),
        placement={WorkKind.HEAR: "ears"},
        noticed_s=(0.0, 0.032),
    )


def preset_names() -> list[str]:
    return sorted([path.stem for path in PRESETS.iterdir() if path.suffix in _READERS] + ["scripted"])


def load_service(name_or_path: str) -> ServiceModel:
    """A preset by its name, or a file that ends in .json or .toml. Raises ConfigError, whose `field` is the dotted
    key."""
    if name_or_path == "scripted":
        return scripted(ScriptedConfig())
    path = next(
        (PRESETS / f"{name_or_path}{end}" for end in _READERS if (PRESETS / f"{name_or_path}{end}").is_file()), None
    )
    path = path or Path(name_or_path)
    read = _READERS.get(path.suffix)
    if read is None:
        names = ", ".join(preset_names())
        raise ConfigError(f"no service model {name_or_path!r}: known are {names}, and files in .json or .toml")
    try:
        values = read(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror or exc}") from exc
    except (ValueError, RecursionError) as exc:  # also of JSON, TOML and UTF-8
        raise ConfigError(f"{path} is no {path.suffix[1:].upper()} that can be read: {exc}") from exc
    try:
        return parse_service(values)
    except ConfigError as exc:
        raise ConfigError(f"{path}: {exc.message}", field=exc.field) from None


def save_service(model: ServiceModel, path: Path) -> None:
    """As JSON, a line for each field and each cost. Raises ConfigError where it cannot be written."""
    values = msgspec.to_builtins(model)
    costs = ",\n  ".join(json.dumps(cost) for cost in values.pop("costs"))
    lines = [f' "{name}": {json.dumps(value)}' for name, value in values.items()]
    lines.insert(1, f' "costs": [\n  {costs}\n ]')
    try:
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror or exc}") from exc


def parse_service(values: Any) -> ServiceModel:
    """Raises ConfigError, whose `field` is the dotted key."""
    try:
        model = msgspec.convert(values, ServiceModel)
    except msgspec.ValidationError as exc:
        message, _, place = str(exc).partition(" - at `")
        field = place.removeprefix("$").strip(".`") or None
        raise ConfigError(f"{field or 'service model'}: {message[:_MOST_SHOWN]}", field=field) from None
    model.lane_of()
    for index, cost in enumerate(model.costs):
        _ascending(f"costs[{index}].ratios", cost.ratios)
        if not (cost.base_s or cost.per_unit_s or cost.per_context_s or cost.kind in _MAY_BE_NOTHING):
            raise ConfigError(f"costs[{index}]: a chunk that takes nothing at all", field=f"costs[{index}]")
    for name in ("begin_s", "end_s", "send_s", "noticed_s"):
        _ascending(name, getattr(model, name))
    return model


_MOST_SHOWN = 200
"""Characters of what is wrong, which may hold all that stands there."""
_MAY_BE_NOTHING = frozenset({WorkKind.HEAR, WorkKind.GENERATE})
_READERS: Mapping[str, Any] = {".json": json.loads, ".toml": tomllib.loads}


def _ascending(field: str, values: tuple[float, ...]) -> None:
    if any(after < before for before, after in pairwise(values)):
        raise ConfigError(f"{field}: quantiles ascend", field=field)
