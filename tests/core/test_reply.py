"""One reply: what is asked of the engines, how far ahead, and what leaves when."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from tests.core.sentences import Sentences
from voicepipe.core.budget import Ledger
from voicepipe.core.clauses import ClauseSplitter
from voicepipe.core.events import (
    Acknowledged,
    Call,
    Line,
    Load,
    ReplyAudio,
    ReplyDone,
    ReplyText,
    Rung,
    Speak,
    Stage,
    Submit,
    Think,
    ToolCalled,
    TurnCommand,
    Way,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Forecaster, Measured, Outlook
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import Reply, ReplyId, ReplySettings, left_s

RATE = 1000
SETTINGS = ReplySettings(PlayoutSettings(RATE, frame_s=0.1), max_tokens=50)
LINES = (Line("user", "hello"),)
NOTHING_KNOWN = Outlook()


@pytest.fixture(autouse=True)
def plain_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voicepipe.core.reply.ClauseSplitter", Sentences)


def pcm(seconds: float) -> bytes:
    return b"\x01\x00" * round(seconds * RATE)


def begun(now: float = 0.0, settings: ReplySettings = SETTINGS, outlook: Outlook = NOTHING_KNOWN) -> Reply:
    """A reply whose first thought has been asked for, not released."""
    reply = Reply(ReplyId("s", 1, 2, 3), settings, Ledger(1, 0.2, 0.0), count(1), outlook)
    reply.begin(LINES, now)
    return reply


def released(now: float = 0.0) -> Reply:
    reply = begun(now)
    reply.on_release(now)
    return reply


def asked(commands: list[TurnCommand]) -> list[tuple[WorkKind, WorkClass]]:
    return [(c.work.kind, c.work.klass) for c in commands if isinstance(c, Submit)]


def tasks(commands: list[TurnCommand]) -> list[Think | Speak | None]:
    return [c.task for c in commands if isinstance(c, Submit)]


THINK = (WorkKind.THINK, WorkClass.SPECULATION)
SPEAK = (WorkKind.SPEAK, WorkClass.SPECULATION)


def test_a_reply_begins_with_a_thought_about_the_conversation() -> None:
    """Every work carries the identity of the reply."""
    reply = Reply(ReplyId("s", 1, 2, 3), SETTINGS, Ledger(1, 0.2, 0.0), count(7))
    work = Work(7, "s", 1, 2, 3, WorkKind.THINK, WorkClass.SPECULATION)
    assert reply.begin(LINES, 0.0) == [Submit(work, Think(LINES, 50))]
    assert reply.waits_for is Stage.LLM
    assert reply.owns(work)


@pytest.mark.parametrize(("epoch", "revision"), [(1, 3), (3, 3), (2, 2), (2, 4)])
def test_work_of_another_epoch_or_revision_is_not_its_own(epoch: int, revision: int) -> None:
    """Both must match."""
    assert not begun().owns(Work(1, "s", 1, epoch, revision, WorkKind.THINK, WorkClass.ASR))


def test_thinking_goes_on_until_there_is_a_clause() -> None:
    """A step that only reads the prompt is followed by the next; later thoughts carry no task."""
    reply = begun()
    for text in ("", "Hello ", "there"):
        commands = reply.on_thought(text, False, 0.0)
        assert asked(commands) == [THINK]
        assert tasks(commands) == [None]


def test_the_first_clause_is_spoken_and_thinking_stops_until_the_release() -> None:
    """Speculation is bounded: one clause."""
    reply = begun()
    commands = reply.on_thought("Hello there. And ", False, 0.0)
    assert asked(commands) == [SPEAK]
    assert tasks(commands) == [Speak("Hello there.", True)]
    assert reply.waits_for is Stage.TTS
    assert reply.on_spoken(pcm(0.5), True, 0.1) == []
    assert reply.waits_for is None


def test_audio_ahead_of_the_release_is_bounded() -> None:
    """0.4 s are enough to begin with."""
    reply = begun()
    reply.on_thought("Hello there. ", False, 0.0)
    assert asked(reply.on_spoken(pcm(0.3), False, 0.1)) == [SPEAK]
    assert asked(reply.on_spoken(pcm(0.1), False, 0.2)) == []


def test_a_first_clause_that_would_come_too_late_is_cut_short() -> None:
    """Where the audio of a typical clause could not meet the deadline any more; the verdict tells."""

    def thought(settings: ReplySettings, now: float) -> list[tuple[WorkKind, WorkClass]]:
        ledger = Ledger(1, 0.2, 0.0)
        ledger.on_soft_end(0.0, 0.05)
        reply = Reply(ReplyId("s", 1, 2, 3), settings, ledger, count(1), forecaster.outlook())
        reply.begin((), 0.05)
        return asked(reply.on_thought("Three words are", False, now, service_s=0.03))

    forecaster = Forecaster()
    first_audio = Measured(WorkKind.SPEAK, Load("voice", 12, variant="first"), 0.05)
    forecaster.seed([first_audio], [Way(read_s=0.03, thought_s=0.02, has_token=True)])
    assert thought(SETTINGS, 0.12) == [THINK]
    assert thought(SETTINGS, 0.14) == [SPEAK]  # 20 ms to the end of a typical clause, and 50 ms to its sound
    assert thought(replace(SETTINGS, may_cut=False), 0.16) == [THINK]


@pytest.mark.parametrize(("spare_s", "cut"), [(None, False), (0.071, False), (0.069, True)])
def test_a_first_clause_that_would_make_another_turn_late_is_cut_short(spare_s: float | None, cut: bool) -> None:
    """It needs 70 ms until its sound, and is in time itself."""
    forecaster = Forecaster()
    first_audio = Measured(WorkKind.SPEAK, Load("voice", 12, variant="first"), 0.05)
    forecaster.seed([first_audio], [Way(read_s=0.03, thought_s=0.02, has_token=True)])
    ledger = Ledger(1, 0.2, 0.0)
    ledger.on_soft_end(0.0, 0.05)
    reply = Reply(ReplyId("s", 1, 2, 3), SETTINGS, ledger, count(1), forecaster.outlook())
    reply.begin((), 0.05)
    reply.spare_s = spare_s
    assert asked(reply.on_thought("Three words are", False, 0.06, service_s=0.03)) == [SPEAK if cut else THINK]


def test_where_every_reply_is_late_first_clauses_are_short_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is a deadline, and however the words come; one that ends by itself is no rung."""
    monkeypatch.setattr("voicepipe.core.reply.ClauseSplitter", ClauseSplitter)

    def begins(*texts: str) -> tuple[str, tuple[str, ...]]:
        ledger = Ledger(1, 0.2, 0.0)
        reply = Reply(ReplyId("s", 1, 2, 3), replace(SETTINGS, hurried=True), ledger, count(1))
        reply.begin((), 0.0)
        for text in texts:
            for task in tasks(reply.on_thought(text, False, 0.0)):
                if isinstance(task, Speak):
                    return task.text, ledger.record().rungs
        raise AssertionError("nothing was to be spoken")

    cut = ("The sun rises", (Rung.SHORT_CLAUSE,))
    assert begins("The sun", " rises in", " the summer") == cut
    assert begins("The sun rises in the morning, mostly.") == cut
    assert begins("Yes, ", "of course") == ("Yes,", ())


def test_a_release_sends_what_is_ready_and_asks_for_more() -> None:
    """Text before its sound; the engines go on where they stopped."""
    reply = begun()
    reply.on_thought("Hello there. And ", False, 0.0)
    reply.on_spoken(pcm(0.1), False, 0.1)
    commands = reply.on_release(0.2)
    assert commands[:2] == [ReplyText(1, 2, "Hello there."), ReplyAudio(2, 0, pcm(0.1))]
    # SPEAK was under way already: only the thought is missing.
    assert asked(commands) == [(WorkKind.THINK, WorkClass.STARTED)]


def test_nothing_is_sent_before_the_release() -> None:
    """Neither text nor sound nor end."""
    reply = begun()
    commands = reply.on_thought("Hello there.", True, 0.0)
    commands += reply.on_spoken(pcm(3.0), True, 0.1)
    commands += reply.on_timer(99.0)
    assert not [c for c in commands if not isinstance(c, Submit)]
    assert reply.next_deadline() is None


def test_a_reply_with_little_audio_ahead_is_urgent_and_with_much_it_is_not() -> None:
    """Playback that is about to run dry goes before everything else."""
    reply = released()
    assert asked(reply.on_thought("One. Two. Three. Four. ", False, 0.0)) == [(WorkKind.SPEAK, WorkClass.STARTED)]
    assert asked(reply.on_spoken(pcm(1.0), True, 0.0)) == [(WorkKind.SPEAK, WorkClass.AHEAD)]


def test_thinking_pauses_while_clauses_wait_for_a_voice() -> None:
    """Two are enough."""
    reply = released()
    assert asked(reply.on_thought("One. Two. Three. ", False, 0.0)) == [(WorkKind.SPEAK, WorkClass.STARTED)]
    commands = reply.on_spoken(pcm(0.1), True, 0.0)
    assert [kind for kind, _ in asked(commands)] == [WorkKind.SPEAK, WorkKind.THINK]


def test_speaking_pauses_when_enough_lies_ahead_and_goes_on_with_the_clock() -> None:
    """3 s beyond the playback frontier; the timer that sends frames asks again."""
    reply = released()
    reply.on_thought("One. Two.", True, 0.0)
    assert asked(reply.on_spoken(pcm(3.3), True, 0.0)) == []
    assert asked(reply.on_timer(0.2)) == []
    deadline = reply.next_deadline()
    assert deadline is not None
    assert asked(reply.on_timer(0.31)) == [(WorkKind.SPEAK, WorkClass.AHEAD)]


def test_what_has_been_asked_for_is_not_asked_for_again() -> None:
    """One step of each kind is outstanding, whatever else happens meanwhile."""
    reply = released()
    assert asked(reply.on_thought("One. ", False, 0.0)) == [
        (WorkKind.SPEAK, WorkClass.STARTED),
        (WorkKind.THINK, WorkClass.STARTED),
    ]
    assert reply.on_timer(0.1) == []
    assert reply.on_report(0, 0.2) == []
    assert reply.on_release(0.3) == []


def test_clauses_are_told_with_the_space_between_them() -> None:
    """Pieces are joined as they are."""
    reply = released()
    reply.on_thought("One. Two.", True, 0.0)
    commands = reply.on_spoken(pcm(0.1), True, 0.0) + reply.on_spoken(pcm(0.1), True, 0.0)
    assert [c.text for c in commands if isinstance(c, ReplyText)] == ["One.", " Two."]


def test_a_clause_is_spoken_in_steps_and_begun_once() -> None:
    """Only the first step of a clause carries its text; only the first clause asks for the earliest sound."""
    reply = released()
    commands = reply.on_thought("One. Two.", True, 0.0)
    commands += reply.on_spoken(pcm(0.1), False, 0.0)
    commands += reply.on_spoken(pcm(0.1), True, 0.0)
    commands += reply.on_spoken(pcm(0.1), True, 0.0)
    assert tasks(commands) == [Speak("One.", True), None, Speak("Two.", False)]


def test_the_end_is_told_when_everything_has_been_said() -> None:
    """Done when all is sent, finished when all is heard."""
    reply = released()
    reply.on_thought("One.", True, 0.0)
    commands = reply.on_spoken(pcm(0.2), True, 0.0)
    assert commands[-1] == ReplyDone(1, 2, 200)
    assert not reply.finished
    assert reply.on_timer(0.2) == []
    assert reply.finished
    assert reply.next_deadline() is None


def test_a_last_thought_after_the_voice_has_caught_up_ends_the_reply() -> None:
    """The end may be known only when nothing is left to be said."""
    reply = released()
    reply.on_thought("One. ", False, 0.0)
    reply.on_spoken(pcm(0.2), True, 0.0)
    assert reply.on_thought("", True, 0.1) == [ReplyDone(1, 2, 200)]


def test_a_client_that_has_played_all_ends_the_reply() -> None:
    """Its report comes before the estimate."""
    reply = released()
    reply.on_thought("One.", True, 0.0)
    reply.on_spoken(pcm(0.2), True, 0.0)
    reply.on_report(200, 0.05)
    assert reply.finished


@pytest.mark.parametrize("text", ["", "   "])
def test_a_reply_without_words_is_silent(text: str) -> None:
    """Complete, and nothing to be heard: no `ReplyDone` either."""
    reply = begun()
    reply.on_thought(text, True, 0.0)
    assert reply.silent
    assert reply.on_release(0.0) == []
    assert reply.finished


def test_a_clause_without_a_sound_leaves_the_reply_silent() -> None:
    """An emoji is text, and says nothing."""
    reply = released()
    reply.on_thought(":-)", True, 0.0)
    reply.on_spoken(b"", True, 0.0)
    assert reply.silent and reply.finished


def test_a_reply_under_way_is_not_silent() -> None:
    """It may still find words."""
    assert not begun().silent


def test_the_ledger_learns_when_clause_and_sound_were_there() -> None:
    """An empty step of the voice is no sound."""
    ledger = Ledger(1, 0.2, 0.0)
    reply = Reply(ReplyId("s", 1, 1, 0), SETTINGS, ledger, count(1))
    ledger.on_commit(0.0)
    reply.begin(LINES, 0.0)
    reply.on_release(0.0)
    reply.on_thought("One.", True, 0.03)
    reply.on_spoken(b"", False, 0.05)
    reply.on_spoken(pcm(0.1), True, 0.08)
    ledger.on_sent(0.08)
    stages = ledger.record().stages
    assert stages[Stage.LLM].wait_s == pytest.approx(0.03)
    assert stages[Stage.TTS].wait_s == pytest.approx(0.05)


def test_works_carry_the_turns_deadline() -> None:
    """Fixed at speech end; the device may order by it."""
    ledger = Ledger(1, 0.2, 0.01)
    ledger.on_soft_end(5.0, 5.03)
    reply = Reply(ReplyId("s", 1, 1, 0), SETTINGS, ledger, count(1))
    (command,) = reply.begin(LINES, 5.05)
    assert isinstance(command, Submit)
    assert command.work.deadline == pytest.approx(5.19)


# --- what is expected, and acknowledgements


EXPECTING = Outlook(reading_s=0.1, audio_s=0.04, audio_base_s=0.04)


@pytest.mark.parametrize(
    ("usual_s", "elapsed_s", "left"),
    [(0.1, 0.0, 0.1), (0.1, 0.06, 0.04), (0.1, 0.1, 0.0), (0.1, 0.19, 0.0), (0.1, 0.2, 0.1), (0.0, 5.0, 0.0)],
)
def test_what_is_left_of_a_step_that_usually_takes_so_long(usual_s: float, elapsed_s: float, left: float) -> None:
    """Overdue, it is expected at any moment; long overdue, nothing is known of it any more."""
    assert left_s(usual_s, elapsed_s) == pytest.approx(left)


def test_content_is_expected_by_the_steps_that_are_left() -> None:
    """The clause and its audio; then the audio alone; then nothing."""
    reply = begun(0.0, outlook=EXPECTING)
    assert reply.content_in_s(0.0) == pytest.approx(0.14)
    assert reply.content_in_s(0.06) == pytest.approx(0.08)
    reply.on_thought("One two three. ", False, 0.08)
    assert reply.content_in_s(0.08) == pytest.approx(0.04)
    assert reply.content_in_s(0.11) == pytest.approx(0.01)
    reply.on_spoken(pcm(0.1), False, 0.12)
    assert reply.content_in_s(0.12) == 0.0


def test_a_clause_cut_short_is_expected_like_any_other() -> None:
    """Later clauses change nothing: the first content is there."""
    reply = begun(0.0, outlook=EXPECTING)
    reply.on_thought("One. Two. Three. ", True, 0.05)
    reply.on_spoken(pcm(0.1), True, 0.06)
    assert reply.content_in_s(9.0) == 0.0


def test_an_acknowledgement_is_told_and_then_heard_before_the_content() -> None:
    """The content's text comes with its first frame, behind all of the sound, at its offset."""
    reply = released()
    assert reply.acknowledge(pcm(0.2), 0.0) == [
        Acknowledged(1, 2, 200),
        ReplyAudio(2, 0, pcm(0.1)),
        ReplyAudio(2, 100, pcm(0.1)),
    ]
    assert not reply.on_its_way
    reply.on_thought("One. ", True, 0.05)
    sent = [c for c in reply.on_spoken(pcm(0.1), True, 0.1) if not isinstance(c, Submit)]
    assert sent == [ReplyText(1, 2, "One."), ReplyAudio(2, 200, pcm(0.1)), ReplyDone(1, 2, 300)]
    assert reply.on_its_way and reply.made and not reply.silent


def test_content_is_as_urgent_behind_an_acknowledgement_as_without_one() -> None:
    """The sound that still plays is no playback that could be drawn on: the turn is late."""
    reply = released()
    reply.acknowledge(pcm(2.0), 0.0)
    commands = reply.on_thought("One. ", False, 0.1)
    assert [work[1] for work in asked(commands)] == [WorkClass.STARTED, WorkClass.STARTED]


def test_an_acknowledgement_alone_is_a_silent_reply() -> None:
    """It is no answer, and not told as one."""
    reply = released()
    reply.acknowledge(pcm(0.2), 0.0)
    assert [c for c in reply.on_thought("", True, 0.1) if isinstance(c, ReplyDone)] == []
    reply.on_timer(0.3)
    assert reply.silent and reply.finished


# --- in writing, and with tools

WRITTEN = replace(SETTINGS, spoken=False, hold_characters=10)
CALL = Call("c1", "clock", "{}")


def texts(commands: list[TurnCommand]) -> list[str]:
    return [command.text for command in commands if isinstance(command, ReplyText)]


def test_a_written_reply_leaves_as_it_is_written() -> None:
    """After the release, without a voice; the first piece is what was made before."""
    reply = begun(settings=WRITTEN)
    assert kinds_of(reply.on_thought("It is ", False, 0.1)) == ["THINK"]
    assert reply.on_thought("noon. ", False, 0.2) == [], "so much is enough before the release"
    said = reply.on_release(0.3)
    assert said[0] == ReplyText(1, 2, "It is noon. ", spoken=False) and kinds_of(said[1:]) == ["THINK"]
    assert texts(reply.on_thought("Really.", False, 0.4)) == ["Really."]
    assert reply.on_thought("", True, 0.5) == [ReplyDone(1, 2, 0)]
    assert not reply.finished, "it is on its way to the socket"
    reply.on_sent()
    assert reply.finished and reply.made and not reply.silent
    assert reply.text() == "It is noon. Really."


def test_a_written_reply_that_was_ready_leaves_at_the_release() -> None:
    reply = begun(settings=WRITTEN)
    reply.on_thought("Yes.", True, 0.1)
    assert not reply.finished and reply.heard_text(0.1) == ""
    assert reply.on_release(0.2) == [ReplyText(1, 2, "Yes.", spoken=False), ReplyDone(1, 2, 0)]
    reply.on_sent()
    assert reply.finished and reply.heard_text(0.2) == "Yes." and reply.next_deadline() is None


def test_a_written_reply_of_blanks_is_silent() -> None:
    reply = begun(settings=WRITTEN)
    reply.on_release(0.0)
    assert reply.on_thought("  \n", True, 0.1) == []
    assert reply.finished and reply.silent


def test_nobody_waits_for_the_sound_of_a_written_reply() -> None:
    """From its first word on there is no deadline any more."""
    reply = begun(settings=WRITTEN)
    (step, *_) = [c for c in reply.on_release(0.0) + reply.on_thought("It", False, 0.1) if isinstance(c, Submit)]
    assert (step.work.klass, step.work.deadline) == (WorkClass.AHEAD, None)


def test_tools_are_called_after_the_release() -> None:
    """And after what is said before; the reply is not silent for it."""
    reply = begun()
    assert [c for c in reply.on_thought("One.", True, 0.1, 0.0, (CALL,)) if isinstance(c, ToolCalled)] == []
    assert reply.on_spoken(pcm(0.2), True, 0.2) == []
    commands = reply.on_release(0.3)
    assert ToolCalled(1, 2, CALL) in commands and reply.called == (CALL,)
    assert [c for c in reply.on_timer(0.6) if isinstance(c, ToolCalled)] == []


@pytest.mark.parametrize("settings", [SETTINGS, WRITTEN], ids=["spoken", "written"])
def test_a_reply_may_be_nothing_but_a_call(settings: ReplySettings) -> None:
    reply = begun(settings=settings)
    reply.on_release(0.0)
    assert reply.on_thought("", True, 0.1, 0.0, (CALL,)) == [ToolCalled(1, 2, CALL)]
    assert reply.only_calls and reply.may_be_filled is settings.spoken
    if settings.spoken:
        assert reply.fill(None, 0.1) == []
    assert reply.finished and not reply.may_be_filled and not reply.silent and not reply.has_content


def test_a_phrase_is_heard_while_a_tool_runs() -> None:
    """It is sound, and not content; the reply is over when it has been heard."""
    reply = begun()
    reply.on_release(0.0)
    reply.on_thought("", True, 0.1, 0.0, (CALL,))
    told = reply.fill(pcm(0.3), 0.1)
    assert told[0] == Acknowledged(1, 2, len(pcm(0.3)) // 2)
    assert b"".join(c.pcm for c in told if isinstance(c, ReplyAudio)) == pcm(0.3)
    assert not [c for c in told if isinstance(c, ReplyDone)]
    assert not reply.finished and not reply.has_content and reply.heard_text(0.4) == ""
    reply.on_timer(0.4)
    assert reply.finished and reply.only_calls


def test_what_has_been_acknowledged_is_not_filled_as_well() -> None:
    reply = begun()
    reply.on_release(0.0)
    reply.acknowledge(pcm(0.1), 0.05)
    reply.on_thought("", True, 0.1, 0.0, (CALL,))
    assert reply.may_be_filled and reply.fill(pcm(0.3), 0.1) == []


def test_a_reply_that_says_something_before_its_call_needs_no_phrase() -> None:
    reply = begun()
    reply.on_release(0.0)
    reply.on_thought("One.", True, 0.1, 0.0, (CALL,))
    reply.on_spoken(pcm(0.2), True, 0.2)
    assert reply.called == (CALL,) and not reply.may_be_filled and not reply.only_calls


def test_what_was_cut_counts_as_heard_no_further() -> None:
    reply = released()
    reply.on_thought("One two.", True, 0.0)
    reply.on_spoken(pcm(1.0), True, 0.0)
    assert reply.heard_text(0.8) == "One"
    reply.cut_at = 300
    assert reply.heard_text(0.8) == ""


def kinds_of(commands: list[TurnCommand]) -> list[str]:
    return [c.work.kind.name if isinstance(c, Submit) else type(c).__name__ for c in commands]
