"""Replies made ahead of the commit, and what the model reads until then."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.core.talking import SETTINGS, S, Talk, heard, kinds, lulled, spoken
from voicepipe.core.answering import Answering
from voicepipe.core.events import (
    FinalTranscript,
    Line,
    Promote,
    ReplyAudio,
    ReplyText,
    Retire,
    SoftEnd,
    SpeechStarted,
    Submit,
    Swell,
    Think,
    Timing,
    TurnEnded,
    Verdict,
    Withdraw,
    WorkClass,
    WorkKind,
)
from voicepipe.core.history import History
from voicepipe.core.ladder import Ladder
from voicepipe.core.numbering import Numbering
from voicepipe.core.turn_state import Attempts, Phase, Turn
from voicepipe.core.utterance import Partial

pytestmark = pytest.mark.usefixtures("plain_sentences")


def test_stable_words_are_read_along_and_tentative_ones_are_not() -> None:
    """The model's slot holds them when the reply begins. A few words at a time: each reading costs a step."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    assert heard(talk, WorkKind.PARTIAL, "what is", "going on", 0.7) == ["PartialTranscript"]
    talk.voiced(1.2, 1.2)
    assert heard(talk, WorkKind.PARTIAL, "what is going on", "there", 1.3) == [
        "PartialTranscript",
        "Withdraw",
        "WARM",
    ]
    (warm,) = [c for c in talk.last if isinstance(c, Submit)]
    assert warm.task == Think((Line("system", "Be brief."), Line("user", "what is going on")), 1)


def test_what_sounds_finished_in_the_middle_is_answered() -> None:
    """The user may be about to stop."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    told = heard(talk, WorkKind.PARTIAL, "What is", "it for?", 0.7)
    assert told == ["PartialTranscript", "Withdraw", "THINK"]
    assert talk.thoughts[-1].lines[-1] == Line("user", "What is it for?")


def test_a_model_without_prefixes_waits_for_the_pause() -> None:
    """It is behind a URL, and each attempt is a whole request."""
    talk = Talk(warm=False)
    lulled(talk, 1.0)
    assert heard(talk, WorkKind.FINAL, "What is it for?", "", 1.05) == ["PartialTranscript"]
    assert kinds(talk.do(talk.turns.on_endpoint(SoftEnd(round(1.06 * S)), 1.0, 1.09))) == ["THINK"]


def test_under_pressure_no_reply_is_begun_before_the_pause() -> None:
    """The turn itself loses nothing: its reply begins when its speech has ended, ahead of the commit."""
    talk = Talk()
    talk.turns.on_shed(True)
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    assert heard(talk, WorkKind.PARTIAL, "What is", "it for?", 0.7) == ["PartialTranscript"]
    talk.voiced(1.2, 1.2)
    assert heard(talk, WorkKind.PARTIAL, "What is it for, do you", "think", 1.3) == ["PartialTranscript"]
    talk.soft_end(1.4)
    assert "THINK" in kinds(talk.hear("What is it for, do you think?", 1.5))


def test_when_the_pressure_is_over_replies_are_begun_ahead_again() -> None:
    talk = Talk()
    talk.turns.on_shed(True)
    talk.turns.on_shed(False)
    lulled(talk, 1.0)
    assert "THINK" in heard(talk, WorkKind.FINAL, "What is it for?", "", 1.05)


def test_what_has_been_begun_ahead_goes_on_under_pressure() -> None:
    talk = Talk()
    lulled(talk, 1.0)
    heard(talk, WorkKind.FINAL, "What is it for?", "", 1.05)
    talk.turns.on_shed(True)
    talk.do(talk.turns.on_endpoint(SoftEnd(round(1.06 * S)), 1.0, 1.09))
    assert kinds(talk.silence(0.096, 1.16)) == ["FinalTranscript", "Committed", "Promote"]


def test_what_sounds_finished_in_a_lull_is_answered_before_the_pause_is_certain() -> None:
    """The soft end finds the text known and the reply in the making."""
    talk = Talk()
    lulled(talk, 1.0)
    told = heard(talk, WorkKind.FINAL, "What is it for?", "", 1.05)
    assert told == ["PartialTranscript", "Withdraw", "THINK"]
    promoted = talk.do(talk.turns.on_endpoint(SoftEnd(round(1.06 * S)), 1.0, 1.09))
    assert promoted == [Promote(1, pytest.approx(1.2), (WorkKind.THINK, WorkKind.SPEAK))]
    assert kinds(talk.silence(0.096, 1.16)) == ["FinalTranscript", "Committed", "Promote"]


def test_a_decode_of_a_lull_belongs_to_a_started_turn_from_the_pause_on() -> None:
    """Until then it is due as if speech had ended with the last sound."""
    talk = Talk()
    lulled(talk, 1.0)
    assert talk.asked[WorkKind.FINAL].klass is WorkClass.ASR
    assert talk.asked[WorkKind.FINAL].deadline == pytest.approx(1.2)
    promoted = talk.do(talk.turns.on_endpoint(SoftEnd(round(1.06 * S)), 1.0, 1.09))
    assert promoted == [Promote(1, pytest.approx(1.2), (WorkKind.FINAL,))]


def test_a_reply_is_a_guess_again_when_speech_goes_on() -> None:
    """What is asked for in the pause goes before listening, and what is asked for after it does not."""
    talk = Talk().until_final()
    assert talk.asked[WorkKind.THINK].klass is WorkClass.STARTED
    talk.resume(1.2)
    talk.think("One two", 1.21)
    assert talk.asked[WorkKind.THINK].klass is WorkClass.SPECULATION


def test_an_answer_to_what_does_not_sound_finished_stays_a_guess() -> None:
    """It will be waited for: the pause is long."""
    talk = Talk().until_final("I would like tea and")
    assert talk.asked[WorkKind.THINK].klass is WorkClass.SPECULATION


@pytest.mark.parametrize("text", ["What is going on", "Is it for the?", "bread, milk, sugar,"])
def test_what_sounds_unfinished_is_not_answered_yet(text: str) -> None:
    """It is read, where it is long enough."""
    talk = Talk()
    lulled(talk, 1.0)
    assert "THINK" not in heard(talk, WorkKind.FINAL, text, "", 1.05)


def test_a_reply_to_fewer_words_than_were_said_is_dropped() -> None:
    """Sound went on: what the first words were answered with will never be released."""
    talk = Talk()
    lulled(talk, 1.0)
    heard(talk, WorkKind.FINAL, "Turn on the light.", "", 1.05)
    talk.voiced(2.0, 2.0)
    assert "Retire" in heard(talk, WorkKind.PARTIAL, "Turn on the light", "and the", 2.1)


def test_replies_ahead_leave_an_attempt_for_the_pause() -> None:
    """What sounds finished again and again is answered so often before it, and once more at it."""
    talk = Talk(attempts=Attempts(3, 0.0))
    for number, text in enumerate(("One is it.", "One is it. Two is it.", "One, two, three is it."), 1):
        lulled(talk, float(number))
        assert ("THINK" in heard(talk, WorkKind.FINAL, text, "", number + 0.05)) == (number < 3)
        talk.do(talk.turns.on_endpoint(Swell(round((number + 0.1) * S)), number + 0.1, number + 0.1))
    talk.soft_end(3.2)
    assert "THINK" in heard(talk, WorkKind.FINAL, "One, two, three is it.", "", 3.3)


def test_replies_to_partials_that_were_in_vain_too_long_wait_for_a_lull() -> None:
    """Half of the turn's time on the device. What was said before a lull may be all there is."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    assert "THINK" in heard(talk, WorkKind.PARTIAL, "One is it.", "", 1.05)
    slow = Timing(1.05, 1.05, 1.8)
    talk.do(talk.turns.on_thought(talk.asked[WorkKind.THINK], "It", False, slow, 1.8))
    talk.voiced(1.9, 1.9)
    assert "THINK" in heard(talk, WorkKind.PARTIAL, "One is it. Two is it.", "", 1.95)
    talk.voiced(2.4, 2.4)
    assert "THINK" not in heard(talk, WorkKind.PARTIAL, "One, two, three is it.", "", 2.45)
    lulled(talk, 2.5)
    assert "THINK" in heard(talk, WorkKind.FINAL, "One, two, three, four is it.", "", 2.55)


def test_the_final_begins_the_reply_ahead_of_the_commit() -> None:
    """The conversation with the user's words, under the coming epoch; nothing is told yet."""
    talk = Talk()
    talk.turns.on_line(Line("user", "Earlier."))
    talk.until_final()
    withdraw, command = talk.last
    assert withdraw == Withdraw(talk.asked[WorkKind.WARM])
    assert isinstance(command, Submit)
    assert (command.work.kind, command.work.epoch) == (WorkKind.THINK, 1)
    assert command.work.klass is WorkClass.STARTED, "its speech has ended, as far as anybody knows"
    assert talk.thoughts[0].lines == (
        Line("system", "Be brief."),
        Line("user", "Earlier."),
        Line("user", "Hello there."),
    )
    assert talk.phase is Phase.HEARING
    assert talk.history == [("user", "Earlier.")]


def test_words_that_vanish_take_the_reply_with_them() -> None:
    """The first pause had words, the last decode has none."""
    talk = Talk().until_final()
    talk.resume(1.2)
    talk.voiced(0.3, 1.5)
    talk.soft_end(1.5)
    talk.hear("", 1.52)
    assert kinds(talk.silence(0.64, 2.2)) == ["Retire", "TurnEnded"]
    assert talk.verdict() is Verdict.EMPTY


def test_the_reply_stays_valid_if_the_pause_was_none_and_the_words_stay_the_same() -> None:
    """A breath: the same text again, with other punctuation."""
    talk = Talk().until_final("Hello there.")
    first = talk.asked[WorkKind.THINK]
    talk.resume(1.2)
    talk.voiced(0.1, 1.3)
    talk.soft_end(1.3)
    assert kinds(talk.hear("hello, there!", 1.32)) == ["Promote"]
    talk.think("One two. ", 1.33, work=first)
    talk.say(0.2, 1.35)
    commands = talk.silence(0.096, 1.4)
    assert [c.epoch for c in commands if isinstance(c, ReplyAudio)] == [1, 1]
    assert talk.turns.snapshot().revision == 0


def test_the_reply_is_made_anew_if_the_text_has_changed() -> None:
    """The revision rises; what waits of the old one is retired, what comes of it is ignored."""
    talk = Talk().until_final("Hello there.")
    old = talk.asked[WorkKind.THINK]
    talk.resume(1.2)
    talk.voiced(0.4, 1.6)
    talk.soft_end(1.6)
    commands = talk.hear("Hello there, you.", 1.62)
    assert commands[0] == Retire(1, 1)
    assert isinstance(commands[1], Submit) and commands[1].work.revision == 1
    assert talk.thoughts[-1].lines[-1] == Line("user", "Hello there, you.")
    assert talk.think("Old. ", 1.63, work=old) == []
    talk.think("New. ", 1.64)
    talk.say(0.2, 1.66)
    texts = [c.text for c in talk.silence(0.096, 1.7) if isinstance(c, ReplyText)]
    assert texts == ["New."]


def test_a_late_result_of_a_dropped_reply_is_counted_as_waste() -> None:
    """It ran for nothing, while the user went on."""
    talk = Talk().until_final("Hello there.")
    old = talk.asked[WorkKind.THINK]
    talk.resume(1.2)
    talk.voiced(0.4, 1.6)
    talk.soft_end(1.6)
    talk.hear("Hello there, you.", 1.62)
    talk.turns.on_thought(old, "Old. ", False, Timing(1.1, 1.1, 1.4), 1.63)
    talk.silence(0.096, 1.7)
    talk.do(talk.turns.on_closed(1.8))
    (ended,) = [c for c in talk.last if isinstance(c, TurnEnded)]
    assert ended.record.speculation.wasted_s == pytest.approx(0.3)
    assert ended.record.speculation.attempts == 2


def test_a_speaker_who_changes_the_text_again_and_again_gets_so_many_attempts_only() -> None:
    """After them the reply waits for the commit: a breath with new words each time must not eat the device."""
    talk = Talk(attempts=Attempts(2, 0.0)).until_final("One.")
    for number, now in ((2, 2.0), (3, 3.0)):
        talk.resume(now)
        talk.voiced(0.5, now + 0.5)
        talk.soft_end(now + 0.5)
        talk.hear(" ".join(["One"] * number), now + 0.52)
    assert len(talk.thoughts) == 2
    assert kinds(talk.last) == ["Retire"]
    commands = talk.silence(1.2, 4.7)
    assert kinds(commands)[:2] == ["FinalTranscript", "Committed"] and "THINK" in kinds(commands)
    assert talk.thoughts[-1].lines[-1] == Line("user", "One One One")


def test_a_longer_turn_has_more_attempts() -> None:
    """What is said at its end is answered ahead too."""
    talk = Talk(attempts=Attempts(1, 0.5)).until_final("One.")
    talk.resume(2.0)
    talk.voiced(1.0, 3.0)
    talk.soft_end(3.0)
    talk.hear("One two", 3.1)
    assert len(talk.thoughts) == 2


def test_nothing_is_read_ahead_for_a_model_that_forgets_it() -> None:
    """A remote endpoint would be paid for a request that saves nothing; neither does transcription need it."""
    for talk in (Talk(warm=False), Talk(auto_reply=False)):
        assert talk.do(talk.turns.on_opened(0.0)) == []
        assert kinds(talk.speak(0.1)) == ["SpeechStarted"]


def test_no_reply_is_made_ahead_without_auto_reply() -> None:
    """Transcription: the commit ends the turn, and there is nothing to be late with."""
    talk = Talk(auto_reply=False).until_final()
    assert talk.last == []
    assert kinds(talk.silence(0.096, 1.1)) == ["FinalTranscript", "Committed", "TurnEnded"]
    assert talk.verdict() is Verdict.MET
    assert talk.history == [("user", "Hello there.")]


def test_a_speculation_that_fails_is_tried_again_at_the_commit() -> None:
    """Nobody has been promised anything yet."""
    talk = Talk().until_final()
    commands = talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.THINK], "engine_failed", 1.05))
    assert commands == [Retire(1, 1)]
    commands = talk.silence(0.096, 1.1)
    assert kinds(commands) == ["FinalTranscript", "Committed", "THINK"]


def test_a_speculation_that_hangs_does_not_end_a_turn_that_is_still_being_heard() -> None:
    """The user goes on and on; the reply is given up, and begun again at the commit."""
    talk = Talk().until_final()
    talk.resume(1.2)
    assert talk.do(talk.turns.on_timer(11.1)) == [Retire(1, 1)]
    assert talk.phase is Phase.HEARING
    assert talk.turns.next_deadline() is None
    talk.soft_end(12.0)
    assert "THINK" in kinds(talk.hear("Hello there.", 12.1))


def test_the_session_begins_by_reading_its_instructions() -> None:
    """Before anybody speaks: a reply then begins on a warm prefix."""
    talk = Talk()
    (command,) = talk.do(talk.turns.on_opened(0.0))
    assert isinstance(command, Submit)
    assert (command.work.kind, command.work.klass) == (WorkKind.WARM, WorkClass.SPECULATION)
    assert command.work.epoch == 1, "that of the coming commit"
    assert command.task == Think((Line("system", "Be brief."), Line("user", "")), 1)


def test_reading_goes_on_until_it_is_finished() -> None:
    """Step by step, one at a time; nothing of it is told."""
    talk = Talk()
    talk.do(talk.turns.on_opened(0.0))
    for _ in range(3):
        work = talk.asked[WorkKind.WARM]
        (command,) = talk.think("", 0.1, work=work)
        assert command == Submit(replace(work, id=work.id + 1))
    assert talk.think("Hm", 0.2, last=True, work=talk.asked[WorkKind.WARM]) == []


def test_every_spoken_turn_reads_the_history_anew() -> None:
    """What was read before is replaced, and a step that still waits does not run."""
    talk = Talk()
    talk.do(talk.turns.on_opened(0.0))
    before = talk.asked[WorkKind.WARM]
    talk.turns.on_line(Line("user", "Earlier."))
    started, withdraw, command = talk.speak(1.0)
    assert (started, withdraw) == (SpeechStarted(1), Withdraw(before))
    assert isinstance(command, Submit) and isinstance(command.task, Think)
    assert command.task.lines[1] == Line("user", "Earlier.")
    assert talk.think("", 1.1, work=before) == []


def test_a_reply_takes_the_place_of_the_reading() -> None:
    """The step that waits is withdrawn first; one that ran meanwhile is followed by nothing."""
    talk = Talk()
    talk.speak(0.0)
    reading = talk.asked[WorkKind.WARM]
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    assert talk.hear("Hello.", 1.1)[0] == Withdraw(reading)
    assert talk.think("", 1.2, work=reading) == []


def test_reading_that_ends_after_its_reply_was_dropped_begins_nothing() -> None:
    """The reply had replaced it at the engine: there is nothing to go on with."""
    talk = Talk()
    talk.speak(0.0)
    reading = talk.asked[WorkKind.WARM]
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("Hello.", 1.1)
    talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.THINK], "engine_failed", 1.15))
    assert talk.think("", 1.2, work=reading) == []


def test_reading_that_fails_costs_nothing() -> None:
    """The reply reads what it needs by itself."""
    talk = Talk()
    talk.speak(0.0)
    assert talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.WARM], "engine_failed", 0.1)) == []
    assert talk.phase is Phase.HEARING


# --- by itself -------------------------------------------------------------------------------------------------


def answering(**changes: object) -> tuple[Answering, Turn, Numbering]:
    settings = replace(SETTINGS, **changes)  # type: ignore[arg-type]
    numbers, history = Numbering("s", count(1)), History(9)
    history.add(Line("user", "Hi."))
    return (
        Answering(numbers, settings, history, Ladder("s", settings, numbers.serial)),
        spoken(numbers, settings),
        numbers,
    )


def test_a_reply_is_begun_on_the_whole_conversation() -> None:
    """Without words of the user, on the conversation as it stands."""
    replies, turn, _ = answering()
    system, before = Line("system", "Be brief."), Line("user", "Hi.")
    for text, lines in (("Go on.", (system, before, Line("user", "Go on."))), (None, (system, before))):
        (asked,) = replies.begin(turn, text, 1, 1.1)
        assert isinstance(asked, Submit) and isinstance(asked.task, Think) and asked.task.lines == lines
    assert turn.attempts == 2 and turn.progress == 1.1


def test_dropping_a_reply_makes_its_results_history() -> None:
    """They are counted as waste; dropping none at all retires nothing."""
    replies, turn, numbers = answering()
    (asked,) = replies.on_final(turn, "Tell me more.", 1.05)
    assert isinstance(asked, Submit)
    assert replies.reply_of(turn, asked.work, Timing(1.05, 1.05, 1.1), 1.1) is turn.reply
    assert replies.drop(turn) == [Retire(1, 1)] and numbers.revision == 1
    assert replies.reply_of(turn, asked.work, Timing(1.1, 1.1, 1.15), 1.15) is None
    assert turn.ledger.wasted_s == pytest.approx(0.1)
    assert replies.drop(turn) == []


def test_words_that_change_cost_an_attempt_each_and_the_same_words_none() -> None:
    """However they are written. After the last attempt the reply waits for the commit."""
    replies, turn, _ = answering(attempts=Attempts(2, 0.0))
    assert kinds(replies.on_final(turn, "Tell me more.", 1.0)) == ["THINK"]
    assert replies.on_final(turn, "tell me MORE", 1.1) == []
    assert kinds(replies.on_final(turn, "Tell me no more.", 1.2)) == ["Retire", "THINK"]
    assert kinds(replies.on_final(turn, "Tell me.", 1.3)) == ["Retire"]
    assert turn.reply is None and turn.attempts == 2


def test_before_the_pause_one_attempt_less_may_be_made() -> None:
    replies, turn, _ = answering(attempts=Attempts(1, 0.0))
    assert kinds(replies.on_ahead(turn, "Tell me more.", 1.0)) == []
    assert kinds(replies.on_final(turn, "Tell me more.", 1.1)) == ["THINK"]


def test_a_partial_is_answered_as_long_as_that_was_not_in_vain_too_long() -> None:
    """Half of the time since the turn began; what a lull brings is answered all the same."""
    replies, turn, _ = answering()
    turn.ledger.on_late_service(Timing(0.0, 0.0, 0.5))
    assert "THINK" in kinds(replies.on_partial(turn, Partial("", "Is it blue?"), 1.0))
    turn.ledger.on_late_service(Timing(0.0, 0.0, 0.51))
    assert "THINK" not in kinds(replies.on_partial(turn, Partial("", "Is it red?"), 2.0))
    assert "THINK" in kinds(replies.on_ahead(turn, "Is it red?", 2.0))


def test_under_pressure_the_model_reads_nothing_and_begins_nothing_before_the_pause() -> None:
    replies, turn, _ = answering()
    replies.on_shed(True)
    assert replies.on_ahead(turn, "one two three four five", 1.0) == []
    assert replies.on_ahead(turn, "Is it red?", 1.0) == []
    replies.on_shed(False)
    assert kinds(replies.on_ahead(turn, "one two three four five", 1.0)) == ["WARM"]


def test_what_is_read_says_what_has_been_heard() -> None:
    """As speculation, under the epoch of the next commit."""
    replies, _, _ = answering()
    (asked,) = replies.read("so far")
    assert isinstance(asked, Submit) and isinstance(asked.task, Think)
    assert (asked.work.kind, asked.work.klass, asked.work.epoch) == (WorkKind.WARM, WorkClass.SPECULATION, 1)
    assert asked.task.lines[-1] == Line("user", "so far")
    assert kinds(replies.on_read(asked.work, False)) == ["WARM"]


def test_words_that_were_read_are_shown_as_they_were_written_then() -> None:
    """What follows them need not be read again; the client is told how the recogniser writes them."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    heard(talk, WorkKind.PARTIAL, "how long should I", "boil and?", 0.7)
    talk.soft_end(1.4)
    talk.hear("How long should I boil an egg?", 1.5)
    assert talk.thoughts[-1].lines[-1] == Line("user", "how long should I boil an egg?")
    commands = talk.silence(1.2, 2.7)
    assert commands[0] == FinalTranscript(1, "How long should I boil an egg?")
    assert talk.turns.snapshot().history[-1] == Line("user", "how long should I boil an egg?")


def test_a_reply_that_is_begun_at_the_commit_is_no_guess() -> None:
    """A typed turn's, and that of a turn whose attempts have run out: somebody waits for it already."""
    talk = Talk()
    talk.do(talk.turns.on_text("Hello there.", 1.0))
    assert talk.asked[WorkKind.THINK].klass is WorkClass.STARTED
    talk = Talk(attempts=Attempts(0, 0.0)).until_final("One is it.")
    talk.silence(1.2, 4.7)
    assert talk.asked[WorkKind.THINK].klass is WorkClass.STARTED
