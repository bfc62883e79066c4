from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType

import pytest

from voicepipe.errors import IndexUnreachable, MissingExtra
from voicepipe.models import hub


class FakeHub(ModuleType):
    """Stands for the package: hands out files, or the error that it is given."""

    def __init__(self, folder: Path, failure: Exception | None = None) -> None:
        super().__init__("huggingface_hub")
        self.folder = folder
        self.failure = failure
        self.asked: list[tuple[str, str, str | None, str | None]] = []

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None, local_dir: str | None) -> str:
        self.asked.append((repo_id, filename, revision, local_dir))
        logging.getLogger("huggingface_hub").warning("retrying")
        if self.failure is not None:
            raise self.failure
        return str(self.folder / filename)


class TransportError(Exception):
    pass


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeHub) -> None:
    errors = ModuleType("huggingface_hub.errors")
    for name in ("HfHubHTTPError", "HTTPError", "LocalEntryNotFoundError"):
        setattr(errors, name, TransportError)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    monkeypatch.setattr(hub, "installed", lambda: True)


def test_a_file_is_fetched_quietly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeHub(tmp_path)
    install(monkeypatch, fake)
    before = logging.getLogger("huggingface_hub").level
    path = hub.download("org/toy", "a/b.gguf", revision="v1", into=tmp_path)
    assert path == tmp_path / "a" / "b.gguf"
    assert fake.asked == [("org/toy", "a/b.gguf", "v1", str(tmp_path))]
    assert caplog.records == []
    assert logging.getLogger("huggingface_hub").level == before


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (TransportError("\n404 not found\nmore"), "404 not found"),
        (TransportError(""), "TransportError"),
        (ValueError("bad name"), "bad name"),
    ],
)
def test_failures_are_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Exception, text: str) -> None:
    install(monkeypatch, FakeHub(tmp_path, failure))
    with pytest.raises(IndexUnreachable, match=f"org/toy/x cannot be fetched from the hub: {text}$"):
        hub.download("org/toy", "x", revision=None, into=None)


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "installed", lambda: False)
    with pytest.raises(MissingExtra, match="pip install huggingface_hub"):
        hub.download("org/toy", "x", revision=None, into=None)


def test_the_real_package_has_what_is_used_of_it() -> None:
    errors = pytest.importorskip("huggingface_hub.errors")
    for name in ("HfHubHTTPError", "HTTPError", "LocalEntryNotFoundError"):
        assert issubclass(getattr(errors, name), Exception)
