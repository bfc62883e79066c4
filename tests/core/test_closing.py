"""The ways in which a turn ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.core.talking import SETTINGS, Talk, kinds, replied, spoken
from voicepipe.core.answering import Answering
from voicepipe.core.closing import Closing, reply_line, user_line
from voicepipe.core.events import (
    Ask,
    Call,
    Line,
    RefusedFor,
    ReplyDone,
    ReplyInterrupted,
    Retire,
    SpeechStarted,
    Stage,
    Submit,
    Think,
    Timing,
    TurnCommand,
    TurnEnded,
    TurnFailed,
    Verdict,
    WorkKind,
)
from voicepipe.core.history import History
from voicepipe.core.ladder import Ladder
from voicepipe.core.numbering import Numbering
from voicepipe.core.pauses import Pauses
from voicepipe.core.turn_state import Phase

pytestmark = pytest.mark.usefixtures("plain_sentences")


def test_an_empty_final_ends_the_turn_without_a_commit() -> None:
    """Humming: no words, no reply, no line, no epoch."""
    talk = Talk().until_final("")
    assert talk.last == []
    assert kinds(talk.silence(0.64, 1.64)) == ["TurnEnded"]
    assert talk.verdict() is Verdict.EMPTY
    assert (talk.turns.epoch, talk.history) == (0, [])


def test_a_whole_reply_enters_the_history_when_it_has_been_heard() -> None:
    """Not when it has been sent; the turn ends then."""
    talk = Talk().until_replying()
    said = talk.wait(5.0)
    assert ReplyDone(1, 1, 2000) in said
    assert kinds(said)[-2:] == ["TurnEnded", "WARM"]
    assert talk.history == [("user", "Hello there."), ("assistant", "One two. Three four.")]
    read = said[-1]
    assert isinstance(read, Submit) and isinstance(read.task, Think)
    assert [line.text for line in read.task.lines[1:]] == ["Hello there.", "One two. Three four.", ""]
    assert talk.phase is Phase.ENDED
    assert talk.turns.next_deadline() is None


def test_an_empty_reply_is_a_failure() -> None:
    """No silent turn."""
    talk = Talk().until_committed()
    commands = talk.think("", 1.2, last=True)
    assert commands[:2] == [TurnFailed(1, "empty_reply", Stage.LLM), ReplyInterrupted(1, 1, 0)]
    assert talk.verdict() is Verdict.FAILED
    assert talk.history == [("user", "Hello there.")]


def test_the_end_of_the_session_gives_the_turn_its_verdict() -> None:
    """Whatever it was doing."""
    stories: list[tuple[Callable[[Talk], object], Verdict]] = [
        (Talk.until_final, Verdict.INTERRUPTED),
        (Talk.until_committed, Verdict.INTERRUPTED),
        (Talk.until_replying, Verdict.MET),
    ]
    for story, verdict in stories:
        talk = Talk()
        story(talk)
        talk.resume(1.5)
        talk.do(talk.turns.on_closed(1.6))
        assert talk.verdict() is verdict
        assert talk.phase is Phase.ENDED
        assert talk.do(talk.turns.on_closed(1.7)) == []


def test_a_final_that_fails_twice_fails_the_turn() -> None:
    """Without a text there is nothing to answer."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    first = talk.asked[WorkKind.FINAL]
    assert kinds(talk.do(talk.turns.on_engine_failed(first, "engine_failed", 1.05)))[-1] == "FINAL"
    assert talk.asked[WorkKind.FINAL] != first
    commands = talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.FINAL], "engine_failed", 1.1))
    assert commands[0] == TurnFailed(1, "engine_failed", Stage.ASR)
    assert talk.verdict() is Verdict.FAILED
    assert talk.speak(2.0)[0] == SpeechStarted(2)


@pytest.mark.parametrize("kind", [WorkKind.THINK, WorkKind.SPEAK])
def test_a_failing_reply_fails_its_turn(kind: WorkKind) -> None:
    """What took too long has no other try after the commit; the client is told where it failed."""
    talk = Talk().until_committed()
    talk.think("One. ", 1.15)
    commands = talk.do(talk.turns.on_engine_failed(talk.asked[kind], "engine_timeout", 1.2))
    assert commands[0] == TurnFailed(1, "engine_timeout", kind.stage)
    assert kinds(commands)[1:] == ["ReplyInterrupted", "Retire", "TurnEnded"]
    assert talk.verdict() is Verdict.FAILED


def test_a_reply_that_crashes_is_made_anew_under_its_epoch_and_nothing_of_the_first_is_taken() -> None:
    """A revision later: what still runs of the first one is stale, at the device and here."""
    talk = Talk().until_committed()
    talk.think("One. ", 1.15)
    old = talk.asked[WorkKind.SPEAK]
    commands = talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.THINK], "engine_failed", 1.2))
    retire = next(command for command in commands if isinstance(command, Retire))
    new = talk.asked[WorkKind.THINK]
    assert (new.epoch, new.revision) == (retire.epoch, retire.revision) == (old.epoch, old.revision + 1)
    assert talk.do(talk.turns.on_spoken(old, bytes(960), True, Timing(1.15, 1.15, 1.25), 1.25)) == []
    assert kinds(commands) == ["Retire", "THINK"]


def test_deaf_ears_fail_the_turn_that_is_being_heard() -> None:
    """What was said in it is not known; a reply that is being given is none of their business."""
    talk = Talk()
    assert talk.do(talk.turns.on_deaf("engine_failed", 0.0)) == []
    talk.speak(0.0)
    assert talk.do(talk.turns.on_deaf("engine_failed", 0.5))[0] == TurnFailed(1, "engine_failed", Stage.ENDPOINT)
    assert talk.verdict() is Verdict.FAILED
    talk = Talk().until_replying()
    assert talk.do(talk.turns.on_deaf("engine_failed", 1.3)) == []


def test_an_interruption_before_any_sound_leaves_nothing_in_the_history() -> None:
    """And the verdict says that there was no content."""
    talk = Talk().until_committed()
    commands = talk.do(talk.turns.on_cancel(1.15))
    assert commands[0] == ReplyInterrupted(1, 1, 0)
    assert talk.verdict() is Verdict.INTERRUPTED
    assert talk.history == [("user", "Hello there.")]


def test_an_interruption_goes_by_the_clients_report() -> None:
    """It has played 600 ms only: one word of two."""
    talk = Talk().until_replying()
    talk.wait(2.4)
    talk.do(talk.turns.on_report(1, 600, 2.4))
    commands = talk.do(talk.turns.on_cancel(2.5))
    assert commands[0] == ReplyInterrupted(1, 1, 600)
    assert talk.history[-1] == ("assistant", "One …")


# --- by itself -------------------------------------------------------------------------------------------------


class End:
    """A turn that can be ended, in its first epoch if it is committed."""

    def __init__(self, *, committed: bool) -> None:
        self.numbers = Numbering("s", count(1))
        self.history = History(9)
        answering = Answering(self.numbers, SETTINGS, self.history, Ladder("s", SETTINGS, self.numbers.serial))
        self.closing = Closing(self.numbers, self.history, answering, Pauses(SETTINGS))
        self.turn = spoken(self.numbers)
        if committed:
            self.turn.ledger.on_commit(1.1)
            self.numbers.begin_epoch()
            replied(self.turn, until=1.1)
        else:
            answering.begin(self.turn, "Hello.", 1, 1.05)

    def by(self, commands: list[TurnCommand]) -> tuple[list[TurnCommand], Verdict]:
        """What is said before the verdict, and that."""
        *rest, ended = commands
        assert isinstance(ended, TurnEnded)
        assert self.turn.phase is Phase.ENDED and self.turn.reply is None
        return rest, ended.record.verdict

    @property
    def replies(self) -> list[str]:
        return [line.text for line in self.history.lines if line.role == "assistant"]


def test_a_reply_that_was_heard_out_is_kept_whole() -> None:
    end = End(committed=True)
    end.turn.ledger.on_sent(1.15, 0.0)
    assert end.by(end.closing.heard_out(end.turn, 2.2)) == ([], Verdict.MET)
    assert end.replies == ["One two."] and end.numbers.epoch == 1


def test_an_interrupted_reply_is_kept_as_far_as_it_was_heard() -> None:
    """Nothing of it, if it was cut off before its first word."""
    end = End(committed=True)
    end.turn.ledger.on_sent(1.15, 0.0)
    rest, verdict = end.by(end.closing.interrupt(end.turn, 1.6))
    assert rest == [ReplyInterrupted(1, 1, 500), Retire(2, 0)] and verdict is Verdict.MET
    assert end.replies == ["One …"]
    early = End(committed=True)
    rest, verdict = early.by(early.closing.interrupt(early.turn, 1.1))
    assert rest == [ReplyInterrupted(1, 1, 0), Retire(2, 0)] and verdict is Verdict.INTERRUPTED
    assert early.replies == []


def test_a_refused_reply_is_retired_without_a_word() -> None:
    end = End(committed=True)
    assert end.by(end.closing.refuse(end.turn, RefusedFor.NO_CONTENT, 1.2)) == ([Retire(2, 0)], Verdict.REFUSED)
    assert end.replies == []


@pytest.mark.parametrize("committed", [False, True])
def test_a_failure_says_which_and_where(committed: bool) -> None:
    """What was made ahead is dropped; what was committed is interrupted."""
    end = End(committed=committed)
    rest, verdict = end.by(end.closing.fail(end.turn, "engine_failed", Stage.LLM, 1.1))
    assert rest[0] == TurnFailed(1, "engine_failed", Stage.LLM) and verdict is Verdict.FAILED
    assert rest[-1] == (Retire(2, 0) if committed else Retire(1, 1))


def test_without_words_there_is_nothing_to_answer() -> None:
    """Nor to be late with."""
    end = End(committed=False)
    assert end.by(end.closing.nothing_said(end.turn, 1.2)) == ([Retire(1, 1)], Verdict.EMPTY)


def test_a_turn_that_nobody_answers_is_not_late() -> None:
    """Its words were all that was wanted."""
    end = End(committed=True)
    end.turn.reply = None
    _, verdict = end.by(end.closing.unanswered(end.turn, 9.0))
    assert verdict is Verdict.MET


# --- what the client says was heard


def test_a_reply_that_is_over_is_cut_to_what_was_heard_of_it() -> None:
    """One second for two words; more or less than was thought, and nothing."""
    for samples, left in ((500, ["One …"]), (400, []), (1000, ["One two."]), (2000, ["One two."])):
        end = End(committed=True)
        end.closing.heard_out(end.turn, 2.2)
        assert end.closing.truncate(1, samples) is (samples < 1000)
        assert end.replies == left


def test_more_may_have_been_heard_than_was_thought() -> None:
    """The line of it comes behind the user's, whatever has been said since."""
    end = End(committed=True)
    end.history.add(Line("user", "Hello."), user_line(1))
    end.closing.interrupt(end.turn, 1.1)
    end.history.add(Line("user", "And?"))
    assert end.replies == []
    assert end.closing.truncate(1, 600)
    assert [line.text for line in end.history.lines] == ["Hello.", "One …", "And?"]


def test_of_a_reply_that_nobody_knows_nothing_is_cut() -> None:
    end = End(committed=True)
    end.closing.heard_out(end.turn, 2.2)
    assert not end.closing.truncate(7, 500) and end.replies == ["One two."]


def test_what_was_heard_of_a_reply_may_be_known_before_its_end() -> None:
    end = End(committed=True)
    assert end.turn.reply is not None
    end.turn.reply.cut_at = 500
    end.closing.heard_out(end.turn, 2.2)
    assert end.replies == ["One …"]


def test_a_reply_beside_the_conversation_leaves_nothing_in_it() -> None:
    end = End(committed=True)
    end.turn.ask = Ask(kept=False)
    end.closing.heard_out(end.turn, 2.2)
    assert end.replies == [] and not end.closing.truncate(1, 500)


def test_a_call_of_a_tool_and_its_result_follow_what_was_said() -> None:
    """Whatever came first, and also where the reply was interrupted."""
    end = End(committed=True)
    assert end.turn.reply is not None
    end.turn.reply.called = (Call("c1", "clock", "{}"),)
    end.turn.results.append(Line("tool", "noon", "c1"))
    end.closing.interrupt(end.turn, 2.0)
    assert [(line.role, line.text) for line in end.history.lines] == [
        ("assistant", "One …"),
        ("call", "{}"),
        ("tool", "noon"),
    ]
    assert end.history.has("c1") and end.history.has(reply_line(1))


def test_of_a_reply_that_was_not_reported_to_its_end_the_rest_goes_with_the_client() -> None:
    """The clock had it heard to its end; sound on its way to a client that is lost was not."""
    talk = Talk().until_replying()
    talk.wait(3.0)
    talk.do(talk.turns.on_report(1, 1000, 3.0))
    talk.wait(9.0)
    assert talk.history[-1] == ("assistant", "One two. Three four.")
    talk.do(talk.turns.on_lost(9.0))
    assert talk.history[-1] == ("assistant", "One two. …")


def test_without_reports_the_clock_is_believed_when_the_client_is_lost() -> None:
    talk = Talk().until_replying()
    talk.wait(9.0)
    talk.do(talk.turns.on_lost(9.0))
    assert talk.history[-1] == ("assistant", "One two. Three four.")


def test_a_conversation_goes_on_in_another_session() -> None:
    """Its lines keep their names; what is said next is the next turn, in a later epoch."""
    before = Talk().until_replying()
    before.wait(9.0)
    before.do(before.turns.on_lost(9.0))
    kept = before.turns.kept()
    after = Talk()
    after.do(after.turns.on_restored(kept))
    assert after.history == before.history and after.turns.has_line("user-1")
    assert after.turns.epoch > before.turns.epoch
    after.do(after.turns.on_text("And now?", 1.0))
    snapshot = after.turns.snapshot()
    assert snapshot.turn == 2 and snapshot.history[-1].text == "And now?"
