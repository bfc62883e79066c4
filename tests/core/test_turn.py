"""The turns of a session, decision by decision, with literal times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.talking import NO_TIME, RATE, SETTINGS, S, Talk, kinds, pcm
from voicepipe.core.events import (
    Acknowledged,
    Ask,
    Call,
    Committed,
    FinalTranscript,
    Line,
    Lull,
    Onset,
    Promote,
    ReplyAudio,
    ReplyDone,
    ReplyText,
    Rung,
    Silence,
    SoftEnd,
    SpeechStarted,
    Stage,
    Submit,
    Think,
    Tool,
    ToolCalled,
    Tools,
    TurnCommand,
    TurnEnded,
    TurnFailed,
    Verdict,
    Voiced,
    Withdraw,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.turn_state import Phase

pytestmark = pytest.mark.usefixtures("plain_sentences")


# --- hearing ---------------------------------------------------------------------------------------------------


def test_before_anybody_has_spoken_nothing_is_the_matter() -> None:
    """No turn, no timer, no answer to whatever comes."""
    turns = Talk().turns
    work = Work(1, "s", 1, 1, 0, WorkKind.THINK, WorkClass.STARTED)
    assert turns.span() is None
    assert turns.next_deadline() is None
    assert turns.phase is turns.snapshot().phase is Phase.ENDED
    for commands in (
        turns.on_timer(1.0),
        turns.on_cancel(1.0),
        turns.on_commit_asked(1.0),
        turns.on_closed(1.0),
        turns.on_report(0, 5, 1.0),
        turns.on_sent(0, 1.0),
        turns.on_endpoint(Voiced(S, S), 1.0, 1.0),
        turns.on_endpoint(SoftEnd(0), 1.0, 1.0),
        turns.on_endpoint(Silence(S), 1.0, 1.0),
        turns.on_transcript(work, "a", "", 0, NO_TIME, 1.0),
        turns.on_thought(work, "a", True, NO_TIME, 1.0),
        turns.on_spoken(work, b"", True, NO_TIME, 1.0),
        turns.on_engine_failed(work, "engine_failed", 1.0),
    ):
        assert commands == []
    turns.on_discarded(work)


def test_an_onset_opens_a_turn() -> None:
    """Numbered from 1; the recogniser hears from the onset on."""
    talk = Talk()
    assert talk.speak(0.0, start=3_200)[0] == SpeechStarted(1)
    assert talk.turns.phase is Phase.HEARING
    span = talk.turns.span()
    assert span is not None and (span.turn, span.start, span.speech_samples) == (1, 3_200, 0)
    talk.voiced(0.25, 0.5)
    assert talk.turns.span() == replace(span, speech_samples=4_000)


def test_enough_silence_commits_what_has_been_heard() -> None:
    """The epoch rises, the text is final and enters the history, and the waiting reply is promoted."""
    talk = Talk().until_final()
    assert talk.silence(0.064, 1.07) == []
    assert talk.silence(0.096, 1.1) == [
        FinalTranscript(1, "Hello there."),
        Committed(1, 1),
        Promote(1),
    ]
    assert talk.turns.epoch == 1
    assert talk.history == [("user", "Hello there.")]


def test_a_ready_reply_is_released_by_the_commit() -> None:
    """Its first audio leaves in the same instant."""
    talk = Talk().until_final()
    talk.think("One two. Three.", 1.03, last=True)
    talk.say(0.1, 1.05)
    assert talk.silence(0.096, 1.1)[1:5] == [
        Committed(1, 1),
        Promote(1),
        ReplyText(1, 1, "One two."),
        ReplyAudio(1, 0, pcm(0.1)),
    ]


def test_nothing_of_a_ready_reply_leaves_before_the_commit() -> None:
    """Audio ready 50 ms into the silence, commit at 640: not a sample before."""
    talk = Talk().until_final("and")
    said = talk.think("One two. Three.", 1.03, last=True) + talk.say(0.5, 1.05)
    for frame in range(1, 19):
        said += talk.silence(0.032 * frame, 1.0 + 0.032 * frame)
    assert set(kinds(said)) <= {"THINK", "SPEAK"}
    assert talk.phase is Phase.HEARING


def test_one_turn_with_many_pauses_is_committed_once() -> None:
    """Each pause is too short; each asks for its own final."""
    talk = Talk()
    said = talk.speak(0.0)
    for number in range(5):
        at = 1.0 + number
        said += talk.voiced(0.5, at)
        said += talk.soft_end(at)
        said += talk.hear("one " * (number + 1), at + 0.02)
        said += talk.silence(0.3, at + 0.3)
        said += talk.resume(at + 0.4)
    talk.voiced(0.5, 6.0)
    talk.soft_end(6.0)
    said += talk.hear("one one one one one done.", 6.02) + talk.silence(0.096, 6.1)
    assert kinds(said).count("Committed") == 1
    assert kinds(said).count("SpeechStarted") == 1


# --- replying --------------------------------------------------------------------------------------------------


def test_the_gap_is_measured_to_the_hand_off() -> None:
    """Speech end 1.0, sent 1.2: met; the commit was at 1.1."""
    talk = Talk(budget_s=0.25).until_replying()
    talk.do(talk.turns.on_cancel(2.0))
    (ended,) = [c for c in talk.last if isinstance(c, TurnEnded)]
    assert ended.record.verdict is Verdict.MET
    assert ended.record.felt_estimate_s == pytest.approx(0.2)
    assert ended.record.system_s == pytest.approx(0.1)


def test_a_late_reply_is_answered_and_carries_its_verdict() -> None:
    """A turn is never refused for its own lateness."""
    talk = Talk(budget_s=0.15).until_replying()
    talk.do(talk.turns.on_cancel(2.0))
    assert talk.verdict() is Verdict.MISSED


def test_a_playback_report_can_end_the_turn() -> None:
    """The client has played all of it before the estimate says so."""
    talk = Talk().until_replying(0.4)
    assert kinds(talk.do(talk.turns.on_report(1, 400, 1.3))) == ["TurnEnded", "WARM"]


def test_a_client_that_plays_late_was_answered_late() -> None:
    """Its reports show when playing began; the earliest such beginning counts."""
    talk = Talk().until_replying(2.0)
    talk.do(talk.turns.on_report(1, 0, 1.3))
    talk.do(talk.turns.on_report(1, RATE // 10, 1.6))
    talk.do(talk.turns.on_report(1, RATE // 2, 1.9))
    talk.wait(9.0)
    (ended,) = [c for c in talk.last if isinstance(c, TurnEnded)]
    assert ended.record.instants.heard == pytest.approx(1.4)
    assert ended.record.felt_estimate_s == pytest.approx(0.4)
    assert ended.record.verdict is Verdict.MISSED


def test_playback_that_stands_still_within_the_answer_did_not_begin_late() -> None:
    """300 ms of it were played from 1.2 on; the next piece came at 2.0, and the report at 2.1."""
    talk = Talk(budget_s=0.25).until_committed()
    talk.think("One two. Three four.", 1.15, last=True)
    talk.say(0.3, 1.2)
    talk.do(talk.turns.on_sent(1, 1.2))
    talk.do(talk.turns.on_report(1, round(0.3 * RATE), 1.7))
    talk.say(0.5, 2.0)
    talk.do(talk.turns.on_report(1, round(0.4 * RATE), 2.1))
    talk.wait(9.0)
    (ended,) = [c for c in talk.last if isinstance(c, TurnEnded)]
    assert ended.record.verdict is Verdict.MET and ended.record.stalled_s == pytest.approx(0.5)


@pytest.mark.parametrize("epoch", [0, 2, 99])
def test_a_report_about_another_epoch_says_nothing(epoch: int) -> None:
    """Stale or unknown ids are ignored."""
    talk = Talk().until_replying(0.4)
    assert talk.do(talk.turns.on_report(epoch, 400, 1.3)) == []
    assert talk.phase is Phase.COMMITTED


# --- the client ------------------------------------------------------------------------------------------------


def test_a_cancel_while_the_user_speaks_cancels_nothing() -> None:
    """There is no reply."""
    talk = Talk().until_final()
    assert talk.do(talk.turns.on_cancel(1.05)) == []
    assert talk.phase is Phase.HEARING


def test_a_cancel_is_valid_at_any_time_and_twice() -> None:
    """The second finds nothing to stop."""
    talk = Talk().until_replying()
    assert "TurnEnded" in kinds(talk.do(talk.turns.on_cancel(1.5)))
    assert talk.do(talk.turns.on_cancel(1.6)) == []


def test_typed_text_is_committed_at_once() -> None:
    """No endpoint, no recogniser."""
    talk = Talk()
    commands = talk.do(talk.turns.on_text("Hi.", 5.0))
    assert commands[:2] == [FinalTranscript(1, "Hi."), Committed(1, 1)]
    assert isinstance(commands[2], Submit)
    assert commands[2].work.kind is WorkKind.THINK
    assert talk.history == [("user", "Hi.")]


def test_typed_text_interrupts_a_reply() -> None:
    """What was heard of it stays."""
    talk = Talk().until_replying()
    talk.wait(2.4)
    commands = kinds(talk.do(talk.turns.on_text("Stop that.", 2.4)))
    assert commands[:4] == ["ReplyInterrupted", "Retire", "TurnEnded", "FinalTranscript"]
    assert [role for role, _ in talk.history] == ["user", "assistant", "user"]


def test_typed_text_replaces_what_is_being_said() -> None:
    """The spoken turn ends without a reply, and its speech does not come back as a barge-in."""
    talk = Talk().until_final()
    commands = talk.do(talk.turns.on_text("Hi.", 1.05))
    assert kinds(commands)[:2] == ["Retire", "TurnEnded"]
    assert talk.voiced(3.0, 4.0) == []


def test_a_reply_can_be_asked_for() -> None:
    """To the conversation as it stands, with no line of the user, also where replies are not automatic."""
    talk = Talk(auto_reply=False)
    talk.turns.on_line(Line("user", "Hello."))
    commands = talk.do(talk.turns.on_create(1.0))
    assert kinds(commands) == ["Committed", "THINK"]
    assert talk.thoughts[-1].lines == (Line("system", "Be brief."), Line("user", "Hello."))
    talk.think("One.", 1.1, last=True)
    talk.say(0.1, 1.2)
    talk.do(talk.turns.on_timer(2.0))
    assert talk.history == [("user", "Hello."), ("assistant", "One.")]


def test_a_demand_commits_in_the_middle_of_speech() -> None:
    """Manual turn-taking: the final decode is all that is waited for."""
    talk = Talk(manual=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    assert kinds(talk.do(talk.turns.on_commit_asked(1.0))) == ["Withdraw", "FINAL"]
    assert kinds(talk.hear("And", 1.1))[-3:] == ["FinalTranscript", "Committed", "Promote"]


def test_a_demand_in_a_pause_commits_at_once() -> None:
    """The text is known."""
    talk = Talk(manual=True).until_final()
    talk.silence(2.4, 3.4)
    assert talk.phase is Phase.HEARING
    assert "Committed" in kinds(talk.do(talk.turns.on_commit_asked(3.5)))


def test_a_demand_after_the_commit_demands_nothing() -> None:
    """Nor where there is no turn."""
    talk = Talk().until_committed()
    assert talk.do(talk.turns.on_commit_asked(1.2)) == []


def test_a_demand_outlives_speech_that_follows_it() -> None:
    """Who lets go of the button has finished, though the microphone picks something up meanwhile."""
    talk = Talk(manual=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.do(talk.turns.on_commit_asked(1.0))
    talk.soft_end(1.1)
    talk.resume(1.2)
    talk.voiced(0.08, 1.3)
    talk.soft_end(1.3)
    assert "Committed" in kinds(talk.hear("Hello.", 1.4))


def test_history_is_bounded() -> None:
    """The oldest lines go first."""
    talk = Talk(max_lines=3)
    for number in range(10):
        talk.turns.on_line(Line("user", str(number)))
    assert talk.history == [("user", "7"), ("user", "8"), ("user", "9")]


# --- limits and failures ---------------------------------------------------------------------------------------


def test_a_turn_that_never_ends_is_cut() -> None:
    """After the longest turn it is committed where it stands; the text so far is kept."""
    talk = Talk(max_turn_s=2.0)
    talk.speak(0.0)
    talk.voiced(1.9, 1.9)
    assert "FINAL" not in kinds(talk.last)
    assert kinds(talk.voiced(2.0, 2.0))[-1] == "FINAL"
    assert "Committed" in kinds(talk.hear("On and on and", 2.1))
    assert talk.voiced(3.0, 3.0) == []


def test_a_cut_turn_is_not_opened_again_by_what_goes_on() -> None:
    """A VAD that flickers for minutes: each flicker begins a turn of its own at most, and the cut one is over."""
    talk = Talk(max_turn_s=2.0)
    talk.speak(0.0)
    talk.voiced(2.0, 2.0)
    said: list[TurnCommand] = []
    for flicker in range(5):
        said += talk.soft_end(2.1 + flicker / 10)
        said += talk.resume(2.15 + flicker / 10)
        said += talk.voiced(0.1, 2.2 + flicker / 10, at=3.0)
    assert said == []
    said = talk.hear("On and on and", 3.0) + talk.voiced(0.1, 3.1, at=4.0)
    assert kinds(said).count("Committed") == 1
    assert "Reopened" not in kinds(said)


def test_the_failure_of_an_old_reply_is_nobodys() -> None:
    """It has been dropped already."""
    talk = Talk().until_final()
    old = talk.asked[WorkKind.THINK]
    talk.resume(1.2)
    talk.voiced(0.4, 1.6)
    talk.soft_end(1.6)
    talk.hear("Something else.", 1.62)
    assert talk.do(talk.turns.on_engine_failed(old, "engine_failed", 1.65)) == []
    talk.silence(0.096, 1.7)
    talk.do(talk.turns.on_cancel(1.8))
    assert talk.do(talk.turns.on_engine_failed(old, "engine_failed", 1.9)) == []


def test_a_hanging_final_fails_the_turn_within_the_bound() -> None:
    """Ten seconds after the last sign of life; one timer, harmless when early."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    assert talk.turns.next_deadline() == 11.0
    assert talk.do(talk.turns.on_timer(10.9)) == []
    assert talk.do(talk.turns.on_timer(11.0))[0] == TurnFailed(1, "engine_timeout", Stage.ASR)
    assert talk.verdict() is Verdict.FAILED
    assert talk.do(talk.turns.on_timer(12.0)) == []


def test_any_transcript_is_a_sign_of_life() -> None:
    """A partial that was still under way when the final was asked for."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("late", 4.0, work=talk.asked[WorkKind.PARTIAL])
    assert talk.turns.next_deadline() == 14.0


def test_a_hanging_llm_fails_the_turn_within_the_bound() -> None:
    """Counted from the last result of any engine of the turn."""
    talk = Talk().until_committed()
    talk.think("", 3.0)
    assert talk.turns.next_deadline() == 13.0
    assert talk.do(talk.turns.on_timer(13.0))[0] == TurnFailed(1, "engine_timeout", Stage.LLM)
    assert talk.verdict() is Verdict.FAILED


def test_a_hanging_voice_is_named_as_such() -> None:
    """The Llm has done its part."""
    talk = Talk().until_committed()
    talk.think("One.", 3.0, last=True)
    assert talk.do(talk.turns.on_timer(13.0))[0] == TurnFailed(1, "engine_timeout", Stage.TTS)


def test_a_hanging_voice_is_named_though_the_llm_still_delivers() -> None:
    """Thoughts are progress as long as there are any; then the voice is all that is waited for."""
    talk = Talk().until_committed()
    talk.think("One. ", 3.0)
    talk.think("Two. Three. ", 4.0)
    assert talk.turns.next_deadline() == 14.0
    assert talk.do(talk.turns.on_timer(14.0))[0] == TurnFailed(1, "engine_timeout", Stage.TTS)


def test_an_engine_that_is_asked_late_has_its_time_from_then_on() -> None:
    """A long first clause: the voice is not asked for the second one until the first has nearly been played."""
    talk = Talk().until_committed()
    talk.think("One. Two.", 1.2, last=True)
    talk.say(20.0, 1.3)
    now = 1.3
    while WorkKind.SPEAK not in [c.work.kind for c in talk.last if isinstance(c, Submit)]:
        deadline = talk.turns.next_deadline()
        assert deadline is not None and deadline > now
        now = deadline
        talk.do(talk.turns.on_timer(now))
    assert now > 17.0
    assert talk.phase is Phase.COMMITTED
    assert "TurnEnded" not in kinds(talk.do(talk.turns.on_timer(now + 9.9)))


def test_a_turn_that_waits_for_the_user_never_times_out() -> None:
    """Nobody owes it anything."""
    talk = Talk()
    talk.speak(0.0)
    assert talk.turns.next_deadline() is None
    assert talk.do(talk.turns.on_timer(1e6)) == []


def test_results_of_an_earlier_turn_never_reach_the_present_one() -> None:
    """The final of turn 1 arrives in turn 2; replies never run one turn behind."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    old = talk.asked[WorkKind.FINAL]
    talk.do(talk.turns.on_timer(11.0))
    talk.speak(12.0)
    talk.voiced(1.0, 13.0)
    talk.soft_end(13.0)
    assert talk.hear("Old words.", 13.1, work=old) == []
    talk.hear("New words.", 13.2)
    commands = talk.silence(0.096, 13.3)
    assert commands[:2] == [FinalTranscript(2, "New words."), Committed(2, 1)]


def test_a_final_told_twice_makes_one_reply() -> None:
    """Single flight: the second is ignored, whatever it says."""
    talk = Talk().until_final()
    work = talk.asked[WorkKind.FINAL]
    assert talk.hear("Other words.", 1.07, work=work) == []
    assert len(talk.thoughts) == 1


def test_work_for_a_coming_turn_is_withdrawn_as_a_whole_work() -> None:
    """The partial that the final makes useless, by its own identity."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    assert talk.soft_end(0.7)[0] == Withdraw(talk.asked[WorkKind.PARTIAL])


# --- what is expected of it -------------------------------------------------------------------------------------


def test_the_record_tells_what_was_expected_at_each_boundary() -> None:
    """The pause, the final text, the clause, its audio, the commit."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    assert talk.turns.on_expected(talk.asked[WorkKind.FINAL], 0.04, False, 1.0) == []
    talk.hear("Hello there.", 1.02)
    talk.silence(0.096, 1.1)
    talk.think("Hi you. ", 1.2, last=True)
    talk.say(0.5, 1.25)
    talk.turns.on_sent(talk.turns.epoch, 1.25)
    talk.wait(9.0)
    (ended,) = [command for command in talk.last if isinstance(command, TurnEnded)]
    assert [forecast.stage for forecast in ended.record.forecasts] == [
        *(Stage.ASR, Stage.LLM, Stage.LLM),
        *(Stage.TTS, Stage.SEND),
    ]


def forecasts(talk: Talk) -> list[tuple[Stage, float]]:
    """(stage, when the first content was expected) of the only turn, once it has been closed."""
    talk.do(talk.turns.on_closed(9.0))
    (ended,) = [command for command in talk.last if isinstance(command, TurnEnded)]
    return [(forecast.stage, round(forecast.finish, 6)) for forecast in ended.record.forecasts]


def paused(*, ahead_s: float | None = None, final_s: float | None = None, running: bool = True) -> Talk:
    """Reading takes 50 ms, and audio 30. `ahead_s`: what a decode is expected to take that a lull has asked for
    20 ms before the pause, that has heard all, and that is `running` since; `final_s`: what one is expected to take
    that the pause asks for."""
    talk = Talk(warm=False)
    talk.turns.on_outlook(Outlook(reading_s=0.05, audio_s=0.03))
    talk.speak(0.0)
    talk.voiced(0.45, 0.45)
    if ahead_s is not None:
        talk.told(Lull(round(0.98 * S), S), 1.0)
        talk.turns.on_expected(talk.asked[WorkKind.FINAL], ahead_s, running, 1.0)
    talk.told(SoftEnd(S), 1.02)
    if final_s is not None:
        talk.turns.on_expected(talk.asked[WorkKind.FINAL], final_s, False, 1.02)
    return talk


def test_at_the_pause_a_decode_is_expected_to_take_what_it_has_to_do() -> None:
    """Not what decodes take: a recheck is over long before. That it begins is no boundary."""
    assert forecasts(paused(final_s=0.04)) == [(Stage.ASR, 1.14)]
    slow = paused(final_s=0.1)
    slow.turns.on_expected(slow.asked[WorkKind.FINAL], 0.1, True, 1.03)
    assert forecasts(slow) == [(Stage.ASR, 1.2)]


def test_a_decode_that_was_begun_in_the_lull_has_less_to_do_at_the_pause() -> None:
    """And nothing, if it should have been done by then; all of it, while it waits."""
    assert forecasts(paused(ahead_s=0.05)) == [(Stage.ASR, 1.13)]
    assert forecasts(paused(ahead_s=0.01)) == [(Stage.ASR, 1.1)]
    assert forecasts(paused(ahead_s=0.05, running=False)) == [(Stage.ASR, 1.15)]


def test_a_decode_at_work_before_the_final_one_comes_on_top() -> None:
    """40 ms of the partial's 60 are left at the pause; one that waits is withdrawn, and is no work to come."""
    for running, finish in ((True, 1.18), (False, 1.14)):
        talk = Talk(warm=False)
        talk.turns.on_outlook(Outlook(reading_s=0.05, audio_s=0.03))
        talk.speak(0.0)
        talk.voiced(1.0, 1.0)
        talk.turns.on_expected(talk.asked[WorkKind.PARTIAL], 0.06, running, 1.0)
        talk.told(SoftEnd(2 * S), 1.02)
        talk.turns.on_expected(talk.asked[WorkKind.FINAL], 0.04, False, 1.02)
        assert forecasts(talk) == [(Stage.ASR, finish)]


def test_what_nobody_has_priced_is_not_foreseen() -> None:
    assert forecasts(paused()) == []


def test_what_is_expected_of_other_decodes_is_no_news() -> None:
    """Of one that nobody waits for, and of a turn that is over."""
    talk = paused(final_s=0.04)
    talk.turns.on_expected(replace(talk.asked[WorkKind.FINAL], id=99), 5.0, False, 1.02)
    talk.turns.on_expected(replace(talk.asked[WorkKind.FINAL], turn=7), 5.0, False, 1.02)
    assert forecasts(talk) == [(Stage.ASR, 1.14)]
    assert talk.turns.on_expected(talk.asked[WorkKind.FINAL], 5.0, False, 9.0) == []


# --- what a client may change, ask for and take back

CALL = Call("c1", "clock", "{}")


def test_other_settings_hold_for_the_next_reply() -> None:
    """The model reads the new instructions; one that is given goes on."""
    talk = Talk().until_replying()
    assert talk.do(talk.turns.on_settings(replace(SETTINGS, instructions="Shout."))) == []
    talk.wait(5.0)
    talk.do(talk.turns.on_text("And?", 6.0))
    assert talk.thoughts[-1].lines[0] == Line("system", "Shout.")


def test_what_was_made_ahead_is_made_anew_under_other_settings() -> None:
    talk = Talk().until_final()
    commands = talk.do(talk.turns.on_settings(replace(SETTINGS, instructions="Shout.")))
    assert kinds(commands) == ["Retire", "WARM"]
    talk.silence(0.096, 1.1)
    assert talk.thoughts[-1].lines[0] == Line("system", "Shout.")


def test_the_same_settings_change_nothing() -> None:
    talk = Talk().until_final()
    assert talk.do(talk.turns.on_settings(SETTINGS)) == []


def test_a_reply_is_asked_for_with_what_is_special_about_it() -> None:
    """It reads what it is given, and leaves nothing behind."""
    tools = Tools((Tool("clock", "", "{}"),), "required")
    talk = Talk()
    ask = Ask("Classify.", (Line("user", "Buy!"),), kept=False, max_tokens=5, spoken=False, tools=tools)
    talk.do(talk.turns.on_create(0.0, ask))
    assert talk.thoughts[-1] == Think((Line("system", "Classify."), Line("user", "Buy!")), 5, tools=tools)
    said = talk.think("Spam.", 0.1, last=True)
    assert said == [ReplyText(1, 1, "Spam.", spoken=False), ReplyDone(1, 1, 0)]
    talk.do(talk.turns.on_sent(1, 0.2))
    assert talk.verdict() is Verdict.MET and talk.history == []


def test_a_written_reply_is_content_when_it_has_been_sent() -> None:
    talk = Talk(spoken=False).until_committed()
    talk.think("It is ", 1.12)
    talk.do(talk.turns.on_sent(1, 1.13))
    talk.think("noon.", 1.2, last=True)
    assert talk.verdict() is Verdict.MET and talk.history[-1] == ("assistant", "It is noon.")


def test_tools_are_called_and_their_results_wait_for_the_call() -> None:
    """A result that comes while the rest is still spoken lies behind the call, not before it."""
    talk = Talk().until_committed()
    talk.do(talk.turns.on_thought(talk.asked[WorkKind.THINK], "One two.", True, NO_TIME, 1.15, (CALL,)))
    commands = talk.say(1.0, 1.2)
    assert ToolCalled(1, 1, CALL) in commands
    assert talk.do(talk.turns.on_line(Line("tool", "noon", "c1"))) == []
    talk.wait(5.0)
    assert [role for role, _ in talk.history] == ["user", "assistant", "call", "tool"]
    assert talk.turns.has_line("c1") and talk.turns.has_line("user-1") and talk.turns.has_line("assistant-1")


def test_a_turn_that_only_called_a_tool_owes_no_content() -> None:
    talk = Talk().until_committed()
    talk.do(talk.turns.on_thought(talk.asked[WorkKind.THINK], "", True, NO_TIME, 1.15, (CALL,)))
    assert talk.verdict() is Verdict.MET and talk.history[-1] == ("call", "{}")


FILLERS = (pcm(0.5), pcm(0.6))


def calling(at: float = 1.15, **changes: object) -> Talk:
    """A turn that was committed at 1.1 and is due at 1.2; its reply is the call of a tool."""
    talk = Talk(**changes)
    talk.turns.on_outlook(Outlook(reading_s=0.1, audio_s=0.05, audio_base_s=0.05))
    talk.until_committed()
    talk.do(talk.turns.on_thought(talk.asked[WorkKind.THINK], "", True, NO_TIME, at, (CALL,)))
    return talk


def test_a_phrase_in_time_masks_that_the_answer_waits_for_a_tool() -> None:
    """The call is told first; the result lies behind it, and the turn has no content."""
    talk = calling(fillers=FILLERS)
    assert kinds(talk.last)[:2] == ["ToolCalled", "Acknowledged"] and "ReplyAudio" in kinds(talk.last)
    talk.do(talk.turns.on_acknowledged(1, 1.16))
    talk.do(talk.turns.on_line(Line("tool", "noon", "c1")))
    talk.wait(2.0)
    (ended,) = [c for c in talk.last if isinstance(c, TurnEnded)]
    assert ended.record.verdict is Verdict.MASKED and ended.record.felt_estimate_s is None
    assert ended.record.rungs == (Rung.FILLER,) and ended.record.blame is None
    assert [role for role, _ in talk.history] == ["user", "call", "tool"]


@pytest.mark.parametrize(
    ("changes", "at", "verdict"),
    [
        ({}, 1.15, Verdict.MET),  # there are no phrases
        ({"fillers": FILLERS, "budget_s": 5.0}, 1.15, Verdict.MET),  # there may be time for an answer
    ],
)
def test_where_no_phrase_is_wanted_the_turn_is_over_with_the_call(
    changes: dict[str, object], at: float, verdict: Verdict
) -> None:
    talk = calling(at, **changes)
    assert kinds(talk.last)[:2] == ["ToolCalled", "TurnEnded"] and talk.verdict() is verdict


def test_a_phrase_that_comes_late_masks_nothing() -> None:
    """It is heard all the same: the tool still runs."""
    talk = calling(1.4, fillers=FILLERS)
    talk.do(talk.turns.on_acknowledged(1, 1.41))
    talk.wait(3.0)
    assert talk.verdict() is Verdict.DEGRADED


def test_phrases_take_turns() -> None:
    talk = calling(fillers=FILLERS)
    talk.wait(3.0)
    lengths = [c.samples for c in calling_again(talk, 10.0) if isinstance(c, Acknowledged)]
    assert lengths == [len(FILLERS[1]) // 2]


def calling_again(talk: Talk, at: float) -> list[TurnCommand]:
    """The same, so much later."""
    talk.told(Onset(round(at * S)), at)
    talk.told(Voiced(S, round((at + 1) * S)), at + 1)
    talk.soft_end(at + 1)
    talk.hear("And now?", at + 1.02)
    talk.silence(0.096, at + 1.1)
    return talk.do(talk.turns.on_thought(talk.asked[WorkKind.THINK], "", True, NO_TIME, at + 1.15, (CALL,)))


def test_the_answer_ends_the_turn_and_its_phrase() -> None:
    """A result that is there sooner: the turn is complete and was not interrupted, and nothing of the phrase comes
    behind the answer's epoch."""
    talk = calling(fillers=FILLERS)
    talk.do(talk.turns.on_acknowledged(1, 1.16))
    talk.do(talk.turns.on_line(Line("tool", "noon", "c1")))
    commands = talk.do(talk.turns.on_create(1.3))
    assert [c.record.verdict for c in commands if isinstance(c, TurnEnded)] == [Verdict.MASKED]
    assert "ReplyInterrupted" not in kinds(commands) and "Committed" in kinds(commands)
    assert [line.role for line in talk.thoughts[-1].lines] == ["system", "user", "call", "tool"]
    assert not [c for c in talk.wait(3.0) if isinstance(c, ReplyAudio) and c.epoch == 1]


def test_a_call_that_was_told_is_not_taken_back() -> None:
    """Whoever goes on to speak begins another turn: the tool may have been run."""
    talk = calling(fillers=FILLERS)
    talk.speak(1.3, start=round(1.3 * S))
    commands = talk.voiced(0.3, 1.6, at=1.6)
    assert "TurnReopened" not in kinds(commands) and "Reopened" not in kinds(commands)
    assert ("call", "{}") in talk.history and talk.turns.snapshot().turn == 2


def test_the_answer_to_a_tool_is_made_on_a_warm_prefix() -> None:
    """What the model is shown then begins with all that it was shown before; reading in between does as well."""
    talk = calling()
    first = talk.thoughts[-1]
    talk.do(talk.turns.on_line(Line("tool", "noon", "c1")))
    talk.do(talk.turns.on_create(2.0))
    again = talk.thoughts[-1]
    assert again.lines[: len(first.lines)] == first.lines and again.tools == first.tools
    assert [line.role for line in again.lines[len(first.lines) :]] == ["call", "tool"]


def test_what_is_put_into_the_history_makes_what_was_made_ahead_useless() -> None:
    """And what is taken out of it; of what is not there nothing is taken."""
    talk = Talk().until_final()
    assert talk.do(talk.turns.on_delete("x")) == []
    assert kinds(talk.do(talk.turns.on_line(Line("user", "Hi."), "x"))) == ["Retire"]
    talk.do(talk.turns.on_line(Line("system", "First."), "", ""))
    assert talk.history == [("system", "First."), ("user", "Hi.")]
    talk.do(talk.turns.on_delete("x"))
    assert talk.history == [("system", "First.")]


def test_a_reply_is_cut_after_its_end() -> None:
    """Its sound is known by the epoch that it had."""
    talk = Talk().until_replying()
    talk.wait(2.3)
    talk.do(talk.turns.on_cancel(2.3))
    assert talk.history[-1] == ("assistant", "One two. …")
    talk.do(talk.turns.on_cut(1, 500, 2.5))
    assert talk.history[-1] == ("assistant", "One …")


def test_a_reply_that_is_cut_while_it_is_given_is_remembered_as_cut() -> None:
    talk = Talk().until_replying()
    talk.do(talk.turns.on_cut(1, 500, 1.8))
    talk.wait(9.0)
    assert talk.history[-1] == ("assistant", "One …")


def test_a_demand_may_end_a_turn_in_which_nothing_was_heard() -> None:
    talk = Talk(manual=True, interruptible=False)
    assert kinds(talk.do(talk.turns.on_commit_asked(1.0, None, True))) == ["TurnEnded"]
    assert talk.verdict() is Verdict.EMPTY


def test_a_demand_ends_a_reply_and_takes_what_was_said_over_it() -> None:
    """From its first sound on, with all that was spoken, though it was over by then."""
    talk = Talk(manual=True, interruptible=False).until_final()
    talk.do(talk.turns.on_commit_asked(1.1))
    talk.think("One two. Three four.", 1.15, last=True)
    talk.say(1.0, 1.2)
    talk.told(Onset(2 * S), 2.0)
    talk.voiced(0.5, 2.5, at=2.5)
    talk.soft_end(2.5)
    assert talk.phase is Phase.COMMITTED
    commands = talk.do(talk.turns.on_commit_asked(2.6, None, True))
    assert [kind for kind in kinds(commands) if kind not in ("Retire", "WARM")] == [
        "ReplyInterrupted",
        "TurnEnded",
        "SpeechStarted",
        "FINAL",
    ]
    span = talk.turns.span()
    assert span is not None and (span.start, span.speech_samples) == (2 * S, round(0.5 * S))
    talk.hear("Stop.", 2.7)
    assert talk.history[-1] == ("user", "Stop.")


def test_what_was_said_is_forgotten_on_demand() -> None:
    talk = Talk().until_final()
    assert kinds(talk.do(talk.turns.on_clear(1.05))) == ["Retire", "TurnEnded"]
    assert talk.verdict() is Verdict.EMPTY and talk.history == []
    assert talk.do(talk.turns.on_clear(1.1)) == []


def test_how_far_a_turn_was_heard_is_known() -> None:
    talk = Talk()
    assert talk.turns.heard_to == 0
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    assert talk.turns.heard_to == S
