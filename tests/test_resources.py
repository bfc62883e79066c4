"""The browser files are found in a checkout and in a wheel, through one function."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from voicepipe.resources import browser_dir, dashboards_dir, pictures_dir

ROOT = Path(__file__).resolve().parent.parent


def test_a_checkout_has_them() -> None:
    """Beside the package, in clients/browser."""
    assert browser_dir() == ROOT / "clients" / "browser"
    assert (browser_dir() / "index.html").is_file()
    assert dashboards_dir() == ROOT / "docs" / "dashboards"
    assert (dashboards_dir() / "voicepipe.json").is_file()
    assert pictures_dir() == ROOT / "docs"


def test_a_wheel_has_them_and_the_client(tmp_path: Path) -> None:
    """Built and unpacked: every browser file, both packages, both py.typed; and the function finds them there."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("voicepipe_realtime-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    expected = {f"voicepipe/browser/{path.name}" for path in browser_dir().iterdir() if path.is_file()}
    expected |= {f"voicepipe/dashboards/voicepipe.{kind}" for kind in ("json", "rules.yml")}
    assert len(expected) > 2 and expected <= names
    assert {"voicepipe/py.typed", "voicepipe_client/py.typed", "voicepipe_client/__init__.py"} <= names
    assert not any(name.endswith((".onnx", ".gguf", ".wav")) or "tests/" in name for name in names)
    asks = "from voicepipe.resources import *; print(browser_dir()); print(dashboards_dir()); print(pictures_dir())"
    found = subprocess.run(
        [sys.executable, "-S", "-c", asks],
        cwd=tmp_path / "site",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    site = tmp_path / "site" / "voicepipe"
    assert found == [str(site / "browser"), str(site / "dashboards"), "None"]
