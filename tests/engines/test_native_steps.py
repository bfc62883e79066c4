"""llama.cpp's own steps, which compute what ours do not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from voicepipe.engines.base import ChatMessage, Context, Prompt
from voicepipe.engines.slot import Limits

llamacpp = pytest.importorskip("voicepipe.engines.llamacpp", reason="needs the extra 'local'")
pytestmark = pytest.mark.models

TEXT = "The capital of France is Paris, and the capital of Italy is Rome. The capital of Spain is"


@pytest.fixture(scope="module")
def both(smollm2_path: Path) -> Iterator[tuple[Any, Any]]:
    """A runtime with steps of our own, and llama.cpp's steps of the same model."""
    limits = Limits(256, 128, 32, 2)
    runtime = llamacpp._Runtime(smollm2_path, slots=2, threads=2, limits=limits)
    yield runtime, llamacpp.NativeSteps(runtime._model, 2, 2, limits)


def test_both_mostly_say_the_same(both: tuple[Any, Any]) -> None:
    runtime, native = both
    tokens = runtime.split(TEXT)
    found = []
    for steps in (runtime.steps, native):
        sampler = steps.sampler(llamacpp.Chance(0.0, 0, 0, 1.0))
        steps.evaluate(0, 0, tokens, len(tokens))
        found.append([steps.sample(sampler, index) for index in range(len(tokens))])
    same = sum(one == other for one, other in zip(*found, strict=True))
    assert same >= 0.85 * len(tokens)
    assert [runtime.text([said[-1]]) for said in found] == [" Madrid"] * 2


def test_a_model_that_is_not_understood_is_computed_by_llama_cpp(
    smollm2_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise llamacpp.CannotStep("it is odd")

    monkeypatch.setattr(llamacpp, "LlamaSteps", refuse)
    engine = llamacpp.LlamaCpp(smollm2_path, slots=1, context_tokens=128)
    assert type(engine._runtime.steps).__name__ == "NativeSteps"
    prompt = Prompt((ChatMessage("user", "Say hello."),), max_tokens=6)
    generation = engine.open("s").generate(prompt, Context("s", 1, 0, 0))
    texts, finish = [], None
    while finish is None:
        step = generation.step()
        texts.append(step.text)
        finish = step.finish
    assert "".join(texts).strip()
