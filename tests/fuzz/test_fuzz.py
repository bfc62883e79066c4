"""The corpus, and some thousand inputs made of it, through every decoder."""

from __future__ import annotations

import time

import pytest

from tests.fuzz.decoders import TARGETS
from tests.fuzz.mutate import JSON, Mutator
from tests.fuzz.target import Broken, Target
from voicepipe.errors import BadJson, ConfigError, TooLarge

MUTATED = {"tape": 800, "wav": 1_500, "ledger": 1_000}
"""Where one input takes longer than elsewhere; 3,000 of the others."""
targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())


@targets
def test_the_corpus_is_taken_or_refused_by_name(target: Target) -> None:
    told = [target.check(data) for data in target.seeds()]
    assert "taken" in told, "nothing of it is in order, so that only refusals are looked at"
    assert len(told) >= 4


@targets
def test_the_corpus_stays_within_memory(target: Target) -> None:
    for data in target.seeds():
        target.check_memory(data)


@targets
def test_what_is_made_of_it_is_taken_or_refused_by_name(target: Target) -> None:
    """Both happen, so that neither the one nor the other is left out."""
    told = []
    for seed in range(MUTATED.get(target.name, 3_000)):
        try:
            told.append(target.check(target.mutate(seed)))
        except Broken as error:
            raise AssertionError(f"python -m tests.fuzz {target.name} --seed {seed}: {error}") from error
    assert told.count("taken") >= 5
    assert len(set(told)) > 1 or target.name == "handshake"


@targets
def test_what_is_made_of_it_is_the_same_every_time(target: Target) -> None:
    assert [target.mutate(seed) for seed in range(20)] == [target.mutate(seed) for seed in range(20)]


# --- that it finds something


def broken(read: object) -> Target:
    return Target("native", read, (BadJson, ConfigError, TooLarge), (ConfigError,), JSON)  # type: ignore[arg-type]


def raises(error: Exception) -> object:
    def read(data: bytes) -> None:
        raise error

    return read


def test_another_error_than_a_typed_one_is_found() -> None:
    for error in (KeyError("x"), RecursionError(), MemoryError(), UnicodeDecodeError("utf-8", b"", 0, 1, "no")):
        with pytest.raises(Broken, match=type(error).__name__):
            broken(raises(error)).check(b"{}")


def test_an_error_that_names_no_field_is_found() -> None:
    with pytest.raises(Broken, match="names no field"):
        broken(raises(ConfigError("wrong"))).check(b"{}")
    assert broken(raises(ConfigError("wrong", field="port"))).check(b"{}") == "bad_config"


def test_an_error_that_names_no_limit_is_found() -> None:
    with pytest.raises(Broken, match="names no limit"):
        broken(raises(TooLarge("far too much"))).check(b"{}")


def test_time_that_grows_with_the_square_is_found() -> None:
    def slow(data: bytes) -> None:
        until = time.thread_time() + len(data) ** 2 * 1e-4
        while time.thread_time() < until:
            pass

    assert broken(slow).check(b"x" * 10) == "taken"
    with pytest.raises(Broken, match="CPU time"):
        broken(slow).check(b"x" * 80)


def test_memory_by_a_length_that_is_trusted_is_found() -> None:
    def trusting(data: bytes) -> bytearray:
        return bytearray(int(data))

    assert broken(trusting).check_memory(b"1000") > 1000
    with pytest.raises(Broken, match="memory"):
        broken(trusting).check_memory(b"90000000")


def test_mutations_reach_into_values() -> None:
    """A reader that trips over one number of one field is found within the inputs of a run."""

    def trips(data: bytes) -> None:
        if b'"rate": 4294967296' in data or b'"rate": Infinity' in data:
            raise OverflowError("rate")

    target = broken(trips)
    with pytest.raises(Broken, match="OverflowError"):
        for seed in range(6_000):
            target.check(target.mutate(seed))


def test_a_mutator_is_a_function_of_its_seed() -> None:
    swapped = Mutator((lambda data, other, draw: other + bytes([draw.randrange(256)]),))
    assert swapped.mutate([b"a", b"b"], 1) == swapped.mutate([b"a", b"b"], 1)
    assert len({swapped.mutate([b"a", b"b"], seed) for seed in range(50)}) > 20
