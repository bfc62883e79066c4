"""Thousands of drawn runs of the server, and what has to hold in each of them (see `world`).

`VOICEPIPE_SEEDS` is how many; `python -m tests.seeded FIRST COUNT` plays others.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.seeded import world
from tests.seeded.engines import CANARY
from tests.seeded.world import play

SEEDS = int(os.environ.get("VOICEPIPE_SEEDS", "2000"))
BATCH = 100
SHOWN = 5
REACHED = (
    *("met", "missed", "failed", "refused", "empty", "interrupted"),
    *("capacity", "draining", "waited", "reopened", "vanished", "transcript_corrected", "client_error"),
    *("stale_audio_dropped", "engine_failed", "overdue", "lost for ever", "engine_stuck", "breaker opened"),
    *(f"closed with {code}" for code in (1000, 1012, 1013, 4400, 4409, 4410)),
    *("token resumed", "token expired", "token displaced", "token unknown"),
)
"""What a few hundred seeds have to come by, or they would prove little."""


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Engines that fail are logged; here they fail all the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def failures(seeds: range) -> list[str]:
    """Of each seed that fails, the command that plays it, and why."""
    failed: list[str] = []
    for seed in seeds:
        try:
            play(seed)
        except Exception as exc:
            failed.append(f"python -m tests.seeded {seed}  # {type(exc).__name__}: {exc}"[:300])
    return failed


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_promise_holds_in_every_seed(first: int) -> None:
    """Leases are live sessions, one verdict per turn, no sound of an older epoch, bounded queues, a reason for each
    end, nothing left."""
    failed = failures(range(first, min(first + BATCH, SEEDS)))
    assert not failed, "\n".join([f"{len(failed)} seeds failed; each is played again by", *failed[:SHOWN]])


def test_the_seeds_come_by_what_they_are_about() -> None:
    """Every verdict, every way to be turned away, lost calls, open breakers."""
    seen: Counter[str] = Counter()
    for seed in range(600):
        seen += play(seed).seen()
    assert {what for what in REACHED if not seen[what]} == set()


def test_no_log_holds_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    """Neither what users type and say, nor replies, nor what an engine's exception quotes of them; at any level."""
    logging.disable(logging.NOTSET)
    caplog.set_level(logging.DEBUG)
    for seed in range(100):
        play(seed)
    assert "chunk failed: ValueError" in caplog.text and "session 1 ended" in caplog.text
    assert CANARY not in caplog.text.lower()


def test_the_same_seed_is_the_same_run() -> None:
    """To the last step; and another one is another."""
    digests = [play(seed).digest for seed in range(30)]
    assert [play(seed).digest for seed in range(30)] == digests
    assert len(set(digests)) == 30


def test_it_is_the_same_in_every_process() -> None:
    """Nothing hangs on where objects lie, or on how strings are hashed."""
    code = "from tests.seeded.world import play; print(*(play(seed).digest for seed in range(40)))"

    def told(hash_seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100, check=True
        )
        return done.stdout

    assert told("1") == told("2")


def test_a_seed_that_fails_says_how_to_play_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, and the others go on."""
    monkeypatch.setattr(world, "CODES", {1000})
    failed = failures(range(20))
    assert 0 < len(failed) < 20
    command, _, why = failed[0].partition("  # ")
    seed = int(command.rpartition(" ")[2])
    assert command == f"python -m tests.seeded {seed}" and "was closed with" in why
    with pytest.raises(AssertionError, match="was closed with"):
        play(seed)


def test_the_command_plays_one_seed_and_shows_it() -> None:
    """With what happened, and its hash."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.seeded", "7"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "caller 0" in done.stdout
    assert done.stdout.rstrip().endswith(f"seed 7: {play(7).digest}")
