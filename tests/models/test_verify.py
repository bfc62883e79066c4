from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.models.fakes import CONFIG, WEIGHTS, toy_model
from voicepipe.errors import ModelCorrupt, ModelMissing
from voicepipe.models.catalog import Model
from voicepipe.models.verify import Verifier, hash_model


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return toy_model(tmp_path / "wheels")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(WEIGHTS)
    (folder / "config.json").write_bytes(CONFIG)
    return folder


def nobody(done: int) -> None:
    """Nobody counts here."""


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_hashing_tells_how_far_it_is(model: Model, folder: Path) -> None:
    counts: list[int] = []
    hash_model(model, folder, counts.append)
    assert counts == sorted(counts)
    assert counts[-1] == model.size_bytes


def test_files_are_read_once_per_process(model: Model, folder: Path, tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "sidecars")
    assert verifier.check(model, folder, nobody)
    assert not verifier.check(model, folder, nobody)


def test_the_sidecar_spares_the_next_process(model: Model, folder: Path, tmp_path: Path) -> None:
    assert Verifier(tmp_path / "sidecars").check(model, folder, nobody)
    assert not Verifier(tmp_path / "sidecars").check(model, folder, nobody)


def test_a_touched_file_is_read_again(model: Model, folder: Path, tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "sidecars")
    verifier.check(model, folder, nobody)
    os.utime(folder / "weights.bin", ns=(1, 1))
    assert verifier.check(model, folder, nobody)


def test_a_replaced_file_of_the_same_age_is_read_again(model: Model, folder: Path, tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "sidecars")
    verifier.check(model, folder, nobody)
    path = folder / "weights.bin"
    before = path.stat()
    other = folder / "other"
    other.write_bytes(WEIGHTS)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)
    assert verifier.check(model, folder, nobody)


def test_a_changed_file_is_corrupt(model: Model, folder: Path, tmp_path: Path) -> None:
    verifier = Verifier(tmp_path / "sidecars")
    verifier.check(model, folder, nobody)
    flip_last_byte(folder / "weights.bin")
    with pytest.raises(ModelCorrupt, match=r"weights\.bin has SHA-256"):
        verifier.check(model, folder, nobody)


def test_a_truncated_file_is_corrupt_before_it_is_read(model: Model, folder: Path, tmp_path: Path) -> None:
    (folder / "weights.bin").write_bytes(WEIGHTS[:-1])
    counts: list[int] = []
    with pytest.raises(ModelCorrupt, match=f"{len(WEIGHTS) - 1} bytes instead of {len(WEIGHTS)}"):
        Verifier(tmp_path / "sidecars").check(model, folder, counts.append)
    assert counts == []


def test_a_missing_file_is_missing(model: Model, folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").unlink()
    with pytest.raises(ModelMissing, match=r"config\.json"):
        Verifier(tmp_path / "sidecars").check(model, folder, nobody)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"weights.bin": 3}', "\x00"])
def test_a_damaged_sidecar_is_no_verdict(model: Model, folder: Path, tmp_path: Path, content: str) -> None:
    sidecars = tmp_path / "sidecars"
    Verifier(sidecars).check(model, folder, nobody)
    (sidecars / "toy.json").write_text(content, encoding="utf-8")
    assert Verifier(sidecars).check(model, folder, nobody)


def test_a_verdict_about_another_hash_does_not_count(model: Model, folder: Path, tmp_path: Path) -> None:
    sidecars = tmp_path / "sidecars"
    Verifier(sidecars).check(model, folder, nobody)
    verdicts = json.loads((sidecars / "toy.json").read_text(encoding="utf-8"))
    verdicts["weights.bin"]["sha256"] = "0" * 64
    (sidecars / "toy.json").write_text(json.dumps(verdicts), encoding="utf-8")
    assert Verifier(sidecars).check(model, folder, nobody)


def test_a_cache_that_cannot_be_written_still_verifies(model: Model, folder: Path, tmp_path: Path) -> None:
    sidecars = tmp_path / "sidecars"
    sidecars.write_text("a file where a folder should be", encoding="utf-8")
    verifier = Verifier(sidecars)
    assert verifier.check(model, folder, nobody)
    assert not verifier.check(model, folder, nobody)
