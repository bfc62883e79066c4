from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.errors import EngineError

decoders = pytest.importorskip("voicepipe.engines.whisper_decoder", reason="needs the extra 'local'")
from tests.engines.tiny_whisper import (  # noqa: E402
    END,
    HEARD,
    NO_SPEECH,
    NO_TIMESTAMPS,
    POSITIONS,
    START,
    WIDTH,
    logits,
    states,
    tiny_decoder,
)

if TYPE_CHECKING:
    from voicepipe.engines.whisper_decoder import DraftDecoder

PROMPT = [START, NO_TIMESTAMPS]
SILENCE = states(HEARD, seed=2)
NEVER = [START, NO_TIMESTAMPS, NO_SPEECH]


@pytest.fixture(scope="module")
def decoder() -> "DraftDecoder":
    made: DraftDecoder = decoders.DraftDecoder(
        tiny_decoder(),
        SILENCE,
        suppressed=decoders.Suppressed(NEVER, [END]),
        no_speech=NO_SPEECH,
        end_of_text=END,
        threads=1,
    )
    return made


def greedy(window: np.ndarray[tuple[int, ...], np.dtype[np.float32]], cap: int) -> list[int]:
    """One token after the other, each from the whole sequence."""
    heard = decoders.filled_up(window, SILENCE)
    ids: list[int] = []
    while len(ids) < cap:
        chances = logits(tiny_decoder(), [*PROMPT, *ids], heard)[-1]
        chances[[*NEVER, *([] if ids else [END])]] = -np.inf
        if (token := int(chances.argmax())) == END:
            break
        ids.append(token)
    return ids


@pytest.mark.parametrize("positions", [12, 5, 0, HEARD, 7])
def test_it_says_what_is_likeliest_with_silence_behind_the_window(decoder: "DraftDecoder", positions: int) -> None:
    """Whatever was heard before: a longer window leaves nothing behind."""
    decoder.decode(states(20, seed=9), PROMPT, (), 5)
    window = states(positions, seed=4)
    assert list(decoder.decode(window, PROMPT, (), 12).ids) == greedy(window, 12)


def test_a_right_draft_takes_one_step(decoder: "DraftDecoder") -> None:
    window = states(12)
    text = decoder.decode(window, PROMPT, (), 8)
    again = decoder.decode(window, PROMPT, text.ids, 8)
    assert again.ids == text.ids and again.steps == 1 < text.steps
    assert again.logprob == pytest.approx(text.logprob, abs=1e-3)
    assert again.no_speech == pytest.approx(text.no_speech, abs=1e-5)


@settings(deadline=None, max_examples=60)
@given(draft=st.lists(st.integers(0, 49), max_size=20), kept=st.integers(0, 8), seed=st.integers(0, 3))
def test_a_draft_changes_nothing_but_the_time(
    decoder: "DraftDecoder", draft: Sequence[int], kept: int, seed: int
) -> None:
    window = states(12, seed)
    text = decoder.decode(window, PROMPT, (), 8)
    assert decoder.decode(window, PROMPT, [*text.ids[:kept], *draft], 8).ids == text.ids


@pytest.mark.parametrize("draft", [(), tuple(range(30))])
def test_the_cap_is_kept_and_so_is_the_number_of_positions(decoder: "DraftDecoder", draft: Sequence[int]) -> None:
    assert len(decoder.decode(states(12), PROMPT, draft, 3).ids) <= 3
    assert len(decoder.decode(states(12), PROMPT, draft, 1_000).ids) <= POSITIONS - len(PROMPT)


def test_states_of_another_width_are_an_engine_error(decoder: "DraftDecoder") -> None:
    with pytest.raises(EngineError, match="decoding failed"):
        decoder.decode(np.zeros((1, 12, WIDTH - 1), np.float32), PROMPT, (), 8)
    assert decoder.decode(states(12), PROMPT, (), 3).ids
