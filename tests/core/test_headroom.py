"""By when a turn's next chunk has to begin."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.core.talking import RATE, SETTINGS, Talk, replied, spoken
from voicepipe.core.events import (
    Load,
    Way,
    WorkKind,
)
from voicepipe.core.forecast import Forecaster, Measured, Outlook
from voicepipe.core.headroom import latest_start
from voicepipe.core.numbering import Numbering
from voicepipe.core.reply import Reply, ReplyId
from voicepipe.core.turn_state import Phase, open_turn

pytestmark = pytest.mark.usefixtures("plain_sentences")


def test_the_device_is_wanted_from_the_first_word_until_the_answer_has_been_made() -> None:
    """Background runs when the answer is only played, and when nobody talks."""
    talk = Talk()
    assert talk.turns.latest_start(0.0) is None
    talk.until_final()
    assert talk.turns.latest_start(1.05) is not None
    talk.silence(0.1, 1.1)
    talk.think("Yes. ", 1.12, last=True)
    assert talk.turns.latest_start(1.13) is not None
    talk.say(2.0, 1.15)
    assert talk.turns.snapshot().phase is Phase.COMMITTED and talk.turns.latest_start(1.15) is None
    talk.wait(9.0)
    assert talk.turns.snapshot().phase is Phase.ENDED and talk.turns.latest_start(9.0) is None


def test_while_the_user_speaks_the_turn_may_end_with_the_last_sound_that_was_heard() -> None:
    """The earliest deadline moves on with the speech."""
    talk = Talk()
    assert talk.turns.latest_start(0.0) is None
    talk.speak(0.0)
    assert talk.turns.latest_start(0.01) == pytest.approx(0.2)
    talk.voiced(0.3, 0.3)
    assert talk.turns.latest_start(0.31) == pytest.approx(0.5)


def test_from_the_pause_on_the_deadline_stands_and_what_is_left_shrinks() -> None:
    """Decode 60 ms (bound 90), reading 20, thinking 30, first audio 40 (bound 60). Once that is there, the user may
    still go on; once it plays, another clause must be there in time."""
    forecaster = Forecaster()
    chunks = [
        Measured(WorkKind.FINAL, Load("asr", 1.0), 0.06),
        Measured(WorkKind.SPEAK, Load("tts", 12, variant="first"), 0.04),
    ]
    forecaster.seed(chunks, [Way(read_s=0.02, thought_s=0.03, has_token=True)])
    talk = Talk(warm=False)
    talk.turns.on_outlook(replace(forecaster.outlook(), final_bound_s=0.09, audio_ratio=1.5))
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    assert talk.turns.latest_start(1.0) == pytest.approx(1.2 - 0.09 - 0.09)
    talk.soft_end(1.0)
    assert talk.turns.latest_start(1.0) == pytest.approx(1.2 - 0.09)
    talk.hear("Hello there.", 1.06)
    assert talk.turns.latest_start(1.06) == pytest.approx(1.2 - 0.09)
    talk.think("Hi ", 1.07)
    assert talk.turns.latest_start(1.07) == pytest.approx(1.2 - 0.07)
    talk.think("you. ", 1.08)
    assert talk.turns.latest_start(1.08) == pytest.approx(1.2 - 0.06)
    talk.say(0.5, 1.09)
    assert talk.turns.latest_start(1.09) == pytest.approx(1.29 - 0.09 - 0.09)
    talk.silence(0.1, 1.1)
    assert talk.turns.snapshot().phase is Phase.COMMITTED
    assert talk.turns.latest_start(1.2) == pytest.approx(1.6 - 0.09, abs=1.5 / RATE)
    talk.think("Bye.", 1.2, last=True)
    talk.say(0.5, 1.3)
    assert talk.turns.latest_start(1.3) is None


# --- by itself -------------------------------------------------------------------------------------------------


def test_a_committed_turn_without_a_deadline_is_due_now() -> None:
    """It was typed: nobody stopped speaking, and the answer is wanted as soon as can be."""
    turn = open_turn(Numbering("s", count(1)), SETTINGS, 0, Outlook(), 0.0)
    turn.phase = Phase.COMMITTED
    assert latest_start(turn, Outlook(), 3.0) is None, "nothing has been begun"
    turn.reply = Reply(ReplyId("s", 1, 1, 0), SETTINGS.reply, turn.ledger, count(50))
    assert latest_start(turn, Outlook(), 3.0) == 3.0


def test_what_is_left_to_do_is_taken_off_the_deadline() -> None:
    """In the pause: reading and speaking, 150 ms of the 200."""
    turn = spoken(Numbering("s", count(1)))
    assert latest_start(turn, Outlook(reading_s=0.1, audio_s=0.05), 1.02) == pytest.approx(1.05)


def test_a_turn_that_is_over_or_made_needs_nothing() -> None:
    turn = replied(spoken(Numbering("s", count(1))), until=1.1)
    assert latest_start(turn, Outlook(), 1.2) is None
    turn.phase, turn.reply = Phase.ENDED, None
    assert latest_start(turn, Outlook(), 1.2) is None
