"""Tools for a model that knows none: what it reads, and what is made of what it writes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import pytest

from tests import virtual
from tests.engines.test_slot import Model, slot_of
from voicepipe.engines.base import ChatMessage, Context, LlmStep, Placement, Prompt, StepSize, ToolOffer, ToolUse
from voicepipe.engines.json_tools import MAX_CALL_CHARACTERS, JsonTools, as_text
from voicepipe.engines.slot import Limits
from voicepipe.errors import BadToolCall

CTX = Context("s", 1, 1, 0)
TOOLS = (ToolOffer("weather", "Tells it.", '{"type": "object"}'), ToolOffer("clock", "The time.", "{}"))
ASKED = (ChatMessage("system", "Be brief."), ChatMessage("user", "Weather?"))
CALL = '{"tool": "weather", "arguments": {"place": "Oslo"}}'


class Inner:
    """A model, a slot and a generation at once: says these pieces, one a step."""

    name, slots, keeps_prefix, has_small, calls_tools = "inner", 3, True, False, False
    step_together = None

    def __init__(self, pieces: Sequence[str], placement: Placement, finish: Any = "stop") -> None:
        self.placement = placement
        self.pieces = list(pieces)
        self.finish = finish
        self.prompts: list[Prompt] = []
        self.cancelled = self.closed = 0

    def open(self, session: str) -> Inner:
        return self

    def generate(self, prompt: Prompt, ctx: Context) -> Inner:
        self.prompts.append(prompt)
        return self

    def next_size(self) -> StepSize:
        return StepSize("decode", 7)

    def step(self) -> Any:
        step = LlmStep(self.pieces.pop(0), 1, finish=None if self.pieces else self.finish)
        return self._later(step) if self.placement == "loop" else step

    async def _later(self, step: LlmStep) -> LlmStep:
        return step

    def cancel(self) -> None:
        self.cancelled += 1

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        self.closed += 1


def said(inner: Inner, tools: tuple[ToolOffer, ...] = TOOLS, choice: str = "auto") -> list[LlmStep]:
    async def main() -> list[LlmStep]:
        generation = JsonTools(inner).open("s").generate(Prompt(ASKED, 50, False, tools, choice), CTX)
        steps: list[LlmStep] = []
        while not steps or steps[-1].finish is None:
            step = generation.step()
            steps.append(await step if inspect.isawaitable(step) else step)
        return steps

    return virtual.run(main())


PLACEMENTS: list[Placement] = ["thread", "loop"]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("cut", [1, 2, 7, 100])
def test_a_call_is_held_and_told_whole(placement: Placement, cut: int) -> None:
    """Wherever the text was cut; what the model would have written after it is not waited for."""
    text = f"  {CALL} And then"
    inner = Inner([text[at : at + cut] for at in range(0, len(text), cut)], placement)
    steps = said(inner)
    assert "".join(step.text for step in steps) == ""
    assert steps[-1].calls == (ToolUse("call_1", "weather", '{"place": "Oslo"}'),)
    assert inner.cancelled == (1 if inner.pieces else 0)


def test_a_call_may_stand_in_a_fence() -> None:
    (use,) = said(Inner(["```json\n", CALL, "\n```"], "thread"))[-1].calls
    assert use.name == "weather"


def test_a_call_without_arguments_has_none() -> None:
    (use,) = said(Inner(['{"tool": "clock"}'], "thread"))[-1].calls
    assert (use.name, use.arguments) == ("clock", "{}")


@pytest.mark.parametrize("pieces", [["It ", "is ", "raining."], ["", " ", "It is {odd}."], ["`x` is it."]], ids=str)
def test_a_reply_passes_from_its_first_word_on(pieces: list[str]) -> None:
    steps = said(Inner(pieces, "thread"))
    assert "".join(step.text for step in steps) == "".join(pieces)
    assert not any(step.calls for step in steps)


@pytest.mark.parametrize(
    "pieces",
    [
        ['{"tool": "weather", '],
        ['{"name": "weather"}'],
        ['{"tool": 3}'],
        ['{"tool": "weather", "arguments": []}'],
        ["{" + " " * MAX_CALL_CHARACTERS, "}"],
        ['{"a":' * 3_000],
        ["```python\nprint()\n```"],
    ],
    ids=lambda pieces: pieces[0][:30],
)
def test_what_begins_like_a_call_and_is_none_is_not_spoken(pieces: list[str]) -> None:
    with pytest.raises(BadToolCall):
        said(Inner(pieces, "thread"))


def test_a_call_that_was_cut_at_the_limit_is_none() -> None:
    (step,) = said(Inner(['{"tool": "wea'], "thread", "length"))
    assert (step.text, step.calls, step.finish) == ("", (), "length")


def test_without_tools_nothing_is_different() -> None:
    """Not even the generation."""
    inner = Inner([CALL], "thread")
    assert said(inner, tools=())[-1].text == CALL
    assert inner.prompts == [Prompt(ASKED, 50)]
    assert said(Inner([CALL], "thread"), choice="none")[-1].text == CALL


def test_the_model_is_told_of_its_tools_behind_its_instructions() -> None:
    told = as_text(Prompt(ASKED, 50, tools=TOOLS))
    system, user = told.messages
    assert system.content.startswith("Be brief.\n\n") and user == ASKED[1] and told.tools == ()
    for part in ("weather: Tells it.", '{"type": "object"}', "clock: The time."):
        assert part in system.content
    assert "now" not in system.content
    assert (
        as_text(Prompt(ASKED, 50, tools=TOOLS, tool_choice="clock")).messages[0].content.endswith("Use clock now.")
    )
    assert "now" in as_text(Prompt(ASKED, 50, tools=TOOLS, tool_choice="required")).messages[0].content
    assert as_text(Prompt(ASKED[1:], 50, tools=TOOLS)).messages[0].role == "system"


def test_the_model_reads_its_calls_as_it_wrote_them() -> None:
    """And what came of them, whether tools are at hand or not."""
    use = ToolUse("call_1", "weather", '{"place": "Oslo"}')
    told = as_text(
        Prompt((ChatMessage("assistant", "", (use,)), ChatMessage("tool", "rain", call_id="call_1")), 50)
    )
    assert told.messages == (ChatMessage("assistant", CALL), ChatMessage("user", "The tool says: rain"))


def test_it_is_otherwise_what_it_wraps() -> None:
    inner = Inner(["Hi."], "thread")
    llm = JsonTools(inner)
    assert (llm.name, llm.placement, llm.slots, llm.keeps_prefix, llm.has_small) == (
        "inner",
        "thread",
        3,
        True,
        False,
    )
    slot = llm.open("s")
    generation = slot.generate(Prompt(ASKED, 50, tools=TOOLS), CTX)
    assert generation.next_size() == StepSize("decode", 7)
    generation.cancel()
    slot.close()
    virtual.run(llm.aclose())
    assert (inner.cancelled, inner.closed) == (1, 2)


def test_the_answer_to_a_tool_is_made_on_a_warm_prefix() -> None:
    """In a slot that keeps its prefix: of the first prompt nothing is read again, only the call and what came of
    it."""
    model = Model(Limits(context=2_000, memory=2_000, prefill=2_000, decode=4), can_cut=True)
    slot, tools = slot_of(model), TOOLS[:1]

    def read(*messages: ChatMessage) -> tuple[int, int]:
        """Tokens of the prompt, and how many of them were computed for it."""
        prompt = as_text(Prompt((*ASKED, *messages), 1, False, tools))
        model.batches.clear()
        slot.generate(prompt, CTX).step()
        return len(model.encode(prompt.messages)), model.batches[0][0]

    size, read_first = read()
    assert read_first == size
    use = ToolUse("call_1", "weather", '{"place": "Oslo"}')
    again, read_again = read(ChatMessage("assistant", "", (use,)), ChatMessage("tool", "rain", call_id="call_1"))
    opening = len("a:")  # where the assistant begins to speak: other words follow than those that were read
    assert read_again <= again - (size - opening), (size, again, read_again)
