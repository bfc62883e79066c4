"""The files that the command line asks for: opened together, closed together, each a file of its own."""

from __future__ import annotations

import json
import stat
from itertools import combinations
from pathlib import Path

import pytest

from voicepipe.errors import ConfigError
from voicepipe.ledgers import LedgerWriter
from voicepipe.recorders import open_recorders
from voicepipe.trace import TraceWriter


def test_nothing_is_written_that_was_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nobody is told of anything."""
    monkeypatch.chdir(tmp_path)
    with open_recorders(None, None, None) as recorders:
        assert (recorders.observers, recorders.tape) == ((), None)
    assert not list(tmp_path.iterdir())


def test_each_option_opens_its_file(tmp_path: Path) -> None:
    """All of them are whole afterwards, and the owner's alone."""
    ledger, trace, record = (tmp_path / name for name in ("l", "t", "r"))
    with open_recorders(ledger, trace, record) as recorders:
        assert [type(one) for one in recorders.observers] == [LedgerWriter, TraceWriter]
        assert recorders.tape is not None
        recorders.tape.scheduler({}, {"main": 1})
    assert {stat.S_IMODE(path.stat().st_mode) for path in (ledger, trace, record)} == {0o600}
    assert ledger.read_text() == ""
    assert json.loads(trace.read_text())
    assert [json.loads(line)["entry"] for line in record.read_text().splitlines()] == ["recording", "made", "end"]


@pytest.mark.parametrize("pair", list(combinations((0, 1, 2), 2)))
def test_two_options_cannot_name_one_file(tmp_path: Path, pair: tuple[int, int]) -> None:
    """They would overwrite each other; nothing is opened."""
    options = ("--ledger", "--trace", "--record")
    paths: list[Path | None] = [None, None, None]
    for index in pair:
        paths[index] = tmp_path / "same"
    named = " and ".join(options[index] for index in pair)
    with pytest.raises(ConfigError, match=named) as caught, open_recorders(*paths):
        raise AssertionError("opened")
    assert caught.value.field == options[pair[1]]
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_opened_leaves_the_others_whole(tmp_path: Path) -> None:
    """Its option is named."""
    with pytest.raises(ConfigError, match="--record"), open_recorders(None, tmp_path / "t", tmp_path):
        raise AssertionError("opened")
    assert json.loads((tmp_path / "t").read_text())
