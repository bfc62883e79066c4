from __future__ import annotations

import errno
import sys
import threading
from pathlib import Path

import pytest

from voicepipe.models import lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks there")


def never() -> None:
    raise AssertionError("nobody else holds it")


def test_it_is_held_and_given_back(tmp_path: Path) -> None:
    for _ in range(2):
        with lock.exclusive(tmp_path / "toy", never) as held:
            assert held


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    waiting = threading.Event()
    order: list[str] = []

    def second() -> None:
        with lock.exclusive(tmp_path / "toy", waiting.set) as held:
            order.append(f"second {held}")

    thread = threading.Thread(target=second)
    with lock.exclusive(tmp_path / "toy", never):
        thread.start()
        assert waiting.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second True"]


def test_it_is_given_back_on_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), lock.exclusive(tmp_path / "toy", never):
        raise KeyboardInterrupt
    with lock.exclusive(tmp_path / "toy", never) as held:
        assert held


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    with lock.exclusive(tmp_path / "toy", never) as held:
        assert not held


def test_other_errors_are_errors(tmp_path: Path) -> None:
    with pytest.raises(OSError), lock.exclusive(tmp_path / "nowhere" / "toy", never):
        pass
