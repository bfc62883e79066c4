"""`voicepipe dashboards`: files for others, whole, and over nothing that is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from voicepipe.cli import main
from voicepipe.commands.dashboards import FILES
from voicepipe.resources import dashboards_dir

pytestmark = pytest.mark.usefixtures("own_cache")


def test_files_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder is made where it is missing; a second time changes nothing."""
    for _ in range(2):
        assert main(["dashboards", str(tmp_path / "watch")]) == 0
        said = capsys.readouterr().out
        assert all(str(tmp_path / "watch" / name) in said for name in FILES)
    written = {path.name: path.read_bytes() for path in (tmp_path / "watch").iterdir()}
    assert written == {path.name: path.read_bytes() for path in dashboards_dir().iterdir()}
    assert json.loads(written["voicepipe.json"])["uid"] == "voicepipe"


def test_what_it_says_of_scraping_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The part of a Prometheus configuration, commented lines included."""
    main(["dashboards", str(tmp_path)])
    said = capsys.readouterr().out
    text = (
        said[said.index("scrape_configs") :]
        .replace("# authorization", "authorization")
        .replace("#   cred", "  cred")
    )
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["job_name"] == "voicepipe" and job["authorization"]["credentials_file"]


def test_another_file_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And then the others are not written either."""
    (tmp_path / "voicepipe.rules.yml").write_text("mine")
    assert main(["dashboards", str(tmp_path)]) == 2
    assert "--force" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["voicepipe.rules.yml"]
    assert main(["dashboards", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "voicepipe.rules.yml").read_text().startswith("# Recording")


@pytest.mark.parametrize("place", ["/nowhere/at/all", "/dev/null", ""])
def test_where_nothing_can_be_written_that_is_told(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["dashboards", place])
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        status = ended.code
    assert status == 2 and capsys.readouterr().err
