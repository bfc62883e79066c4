from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from voicepipe.errors import EngineError

llama = pytest.importorskip("voicepipe.engines.llama_steps", reason="needs the extra 'local'")
from tests.engines import tiny_llama  # noqa: E402
from tests.engines.tiny_llama import CONTEXT, VOCABULARY, tensors, write  # noqa: E402

if TYPE_CHECKING:
    from voicepipe.engines.llama_steps import LlamaSteps

IDS = [3, 17, 42, 8, 30, 11, 5, 29]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> "LlamaSteps":
    path = write(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tensors())
    made: LlamaSteps = llama.LlamaSteps(path, sequences=4, context_tokens=CONTEXT, threads=1)
    return made


def chance(temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0) -> "llama.Chance":
    return llama.Chance(temperature, seed, top_k, top_p)


def following(steps: "LlamaSteps", count: int, first: int = 0) -> list[int]:
    return [steps.sample(steps.sampler(chance()), first + index) for index in range(count)]


def expected(ids: list[int]) -> list[int]:
    return [int(row.argmax()) for row in tiny_llama.logits(tensors(), ids)]


@pytest.mark.parametrize("parts", [(8,), (3, 5), (1,) * 8, (6, 1, 1)])
def test_in_any_parts_the_tokens_are_followed_by_the_same(steps: "LlamaSteps", parts: tuple[int, ...]) -> None:
    found: list[int] = []
    for count in parts:
        at = len(found)
        steps.evaluate(0, at, IDS[at : at + count], count)
        found += following(steps, count)
    assert found == expected(IDS)


def test_only_outputs_that_are_wanted_are_there_and_are_counted_from_the_first_token(steps: "LlamaSteps") -> None:
    steps.evaluate(0, 0, IDS, 2)
    assert following(steps, 2, first=6) == expected(IDS)[6:]


def test_what_was_taken_back_is_written_over(steps: "LlamaSteps") -> None:
    steps.evaluate(0, 0, IDS, 1)
    assert steps.keep(0, 3) == 3
    steps.evaluate(0, 3, [9, 9, 1], 3)
    assert following(steps, 3) == expected([*IDS[:3], 9, 9, 1])[3:]


def test_sequences_know_nothing_of_each_other(steps: "LlamaSteps") -> None:
    others = [[7, 7, 2], [44, 1, 19, 20]]
    for number, ids in enumerate([*others, IDS[:5]], 1):
        steps.evaluate(number, 0, ids, 1)
    steps.evaluate(0, 0, IDS[:7], 1)
    steps.evaluate_rows([(2, 4, 6), (3, 5, IDS[5]), (1, 3, 8)])
    texts = [[*others[1], 6], IDS[:6], [*others[0], 8]]
    assert following(steps, 3) == [expected(ids)[-1] for ids in texts]
    steps.evaluate(0, 7, IDS[7:], 1)
    assert following(steps, 1) == expected(IDS)[-1:]


def test_a_row_that_is_left_out_loses_nothing(steps: "LlamaSteps") -> None:
    """Before its first token, in the middle of its prompt, and while another one is at its end."""
    steps.keep(1, 0)
    steps.evaluate(2, 0, IDS[:4], 1)
    steps.evaluate(3, 0, [1] * (CONTEXT - 2), 1)
    for at in (CONTEXT - 2, CONTEXT - 1):
        steps.evaluate_rows([(3, at, 9)])
    steps.evaluate(2, 4, IDS[4:6], 1)
    steps.evaluate(1, 0, IDS, 1)
    steps.evaluate_rows([(2, 6, IDS[6]), (1, 8, 13)])
    assert following(steps, 2) == [expected(IDS[:7])[-1], expected([*IDS, 13])[-1]]


def test_more_than_the_context_is_an_engine_error(steps: "LlamaSteps") -> None:
    with pytest.raises(EngineError, match="could not be evaluated"):
        steps.evaluate(0, CONTEXT - 2, [1, 2, 3], 1)
    steps.evaluate(0, 0, IDS, 8)
    assert following(steps, 8) == expected(IDS)


# --- choosing ---------------------------------------------------------------------------------------------


LOGITS = np.log(np.array([0.05, 0.5, 0.15, 0.3], np.float32))


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (40, 1.0), (0, 0.9), (0, 0.9999), (40, 0.9), (9_999, 0.5)])
def test_what_is_kept_of_a_vocabulary_is_what_sorting_all_of_it_keeps(top_k: int, top_p: float) -> None:
    """The likeliest `top_k`, and of those the fewest whose shares make up `top_p`."""
    logits = np.random.default_rng(5).normal(0.0, 2.0, 5_000).astype(np.float32)
    order = np.argsort(-logits, kind="stable")[: top_k or None]
    shares = np.exp(logits[order].astype(np.float64))
    if top_p < 1.0:
        order = order[: int(np.searchsorted(np.cumsum(shares / shares.sum()), top_p)) + 1]
    kept = llama.Sampler(chance(1.0, top_k=top_k, top_p=top_p))._kept(logits)
    assert set(range(5_000) if kept is None else kept.tolist()) == set(order.tolist())


def picks(one: "llama.Chance", count: int = 4_000) -> Counter[int]:
    sampler = llama.Sampler(one)
    return Counter(sampler.pick(LOGITS) for _ in range(count))


def test_at_temperature_one_tokens_come_as_often_as_they_are_likely() -> None:
    found = picks(chance(1.0))
    assert [found[token] / 4_000 for token in range(4)] == pytest.approx([0.05, 0.5, 0.15, 0.3], abs=0.03)


def test_colder_is_more_decided() -> None:
    assert picks(chance(0.5))[1] == pytest.approx(4_000 * 0.25 / (0.0025 + 0.25 + 0.0225 + 0.09), abs=120)


@pytest.mark.parametrize(
    ("one", "left"),
    [(chance(1.0, top_k=2), {1, 3}), (chance(1.0, top_p=0.7), {1, 3}), (chance(1.0, top_p=0.01), {1})],
)
def test_unlikely_tokens_are_cut_off(one: "llama.Chance", left: set[int]) -> None:
    assert set(picks(one)) == left


def test_a_seed_repeats_itself() -> None:
    def some(seed: int) -> list[int]:
        sampler = llama.Sampler(chance(1.0, seed=seed))
        return [sampler.pick(LOGITS) for _ in range(50)]

    assert some(1) == some(1) != some(2)


def test_a_sampler_that_is_not_greedy_gets_the_logits(steps: "LlamaSteps") -> None:
    steps.evaluate(0, 0, IDS, 2)
    sampler = steps.sampler(chance(1.0, top_k=1))
    assert [steps.sample(sampler, index) for index in (6, 7)] == expected(IDS)[6:]
    hot = steps.sampler(chance(100.0))
    assert len({steps.sample(hot, 7) for _ in range(500)}) > VOCABULARY // 2
