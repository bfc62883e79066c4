from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from voicepipe.errors import IndexUnreachable, MissingExtra
from voicepipe.models import hub


class FakeHub(ModuleType):
    """Stands for the package: hands out files, or the error that it is given.

    Like the package, it sets its logger up when a function of it is first asked for.
    """

    def __init__(self, folder: Path, failure: Exception | None = None) -> None:
        super().__init__("huggingface_hub")
        self.folder = folder
        self.failure = failure
        self.asked: list[tuple[str, str, str | None, str | None]] = []

    def __getattr__(self, name: str) -> object:
        if name != "hf_hub_download":
            raise AttributeError(name)
        logging.getLogger("huggingface_hub").setLevel(logging.WARNING)
        return self._download

    def _download(self, repo_id: str, filename: str, *, revision: str | None, local_dir: str | None) -> str:
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
    path = hub.download("org/toy", "a/b.gguf", revision="v1", into=tmp_path)
    assert path == tmp_path / "a" / "b.gguf"
    assert fake.asked == [("org/toy", "a/b.gguf", "v1", str(tmp_path))]
    assert caplog.records == []
    assert logging.getLogger("huggingface_hub").level == logging.WARNING


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


def test_the_real_package_says_nothing_of_its_own_about_a_hub_that_does_not_answer(tmp_path: Path) -> None:
    """In a process of its own: what the package does when it is first imported counts."""
    pytest.importorskip("huggingface_hub")
    program = (
        "from pathlib import Path\n"
        "from voicepipe.errors import IndexUnreachable\n"
        "from voicepipe.models import hub\n"
        "import time; time.sleep = lambda seconds: None\n"  # between its retries
        "try:\n"
        f"    hub.download('org/toy', 'x.gguf', revision=None, into=Path({str(tmp_path)!r}))\n"
        "except IndexUnreachable as error:\n"
        "    print('unreachable:', error.message[:9])\n"
    )
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "NO_PROXY": "*"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("unreachable: org/toy/x\n", "")
