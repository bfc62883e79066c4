"""The turns of a session, decision by decision, with literal times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from tests.core.sentences import Sentences
from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.events import (
    Acknowledged,
    Committed,
    Corrected,
    EndpointEvent,
    FinalTranscript,
    Line,
    Load,
    Lull,
    Onset,
    PartialTranscript,
    Promote,
    Quiet,
    Reopened,
    ReplyAudio,
    ReplyDone,
    ReplyInterrupted,
    ReplyText,
    Resumed,
    Retire,
    Silence,
    SoftEnd,
    SpeechStarted,
    Stage,
    Submit,
    Swell,
    Think,
    Timing,
    TurnCommand,
    TurnEnded,
    TurnFailed,
    Verdict,
    Voiced,
    Way,
    Withdraw,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.forecast import Forecaster, Measured, Outlook
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import ReplySettings
from voicepipe.core.turn import Turns, normalised
from voicepipe.core.turn_state import Attempts, Phase, TurnSettings

RATE = 1000
S = 16_000
"""Samples of a second of the user's voice."""
HEARD_ALL = 60 * S
"""Where a decode ends that was made of all there was."""
SETTINGS = TurnSettings(
    reply=ReplySettings(PlayoutSettings(RATE, frame_s=0.1)),
    patience=OPERATING_POINTS["fast"],
    instructions="Be brief.",
    downlink_s=0.0,
)
NO_TIME = Timing(0.0, 0.0, 0.0)


@pytest.fixture(autouse=True)
def plain_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voicepipe.core.reply.ClauseSplitter", Sentences)


def pcm(seconds: float) -> bytes:
    return b"\x01\x00" * round(seconds * RATE)


def kinds(commands: list[TurnCommand]) -> list[str]:
    """Names of the commands; of a Submit, the kind of work."""
    return [c.work.kind.name if isinstance(c, Submit) else type(c).__name__ for c in commands]


class Talk:
    """Turns with what was asked of the engines kept, so that a test can answer it."""

    def __init__(self, **changes: object) -> None:
        self.turns = Turns("s", replace(SETTINGS, **changes), count(1))  # type: ignore[arg-type]
        self.asked: dict[WorkKind, Work] = {}
        self.thoughts: list[Think] = []
        self.last: list[TurnCommand] = []

    def do(self, commands: list[TurnCommand]) -> list[TurnCommand]:
        for command in commands:
            if isinstance(command, Submit):
                self.asked[command.work.kind] = command.work
                if isinstance(command.task, Think) and command.work.kind is WorkKind.THINK:
                    self.thoughts.append(command.task)
        self.last = commands
        return commands

    # the user

    def speak(self, now: float, *, start: int = 0) -> list[TurnCommand]:
        """An onset, without more speech yet."""
        return self.do(self.turns.on_endpoint(Onset(start), now, now))

    def resume(self, now: float, *, start: int = 0) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(Resumed(start), now, now))

    def voiced(self, seconds: float, now: float, *, at: float | None = None) -> list[TurnCommand]:
        position = round((seconds if at is None else at) * S)
        return self.do(self.turns.on_endpoint(Voiced(round(seconds * S), position), now, now))

    def soft_end(self, now: float) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(SoftEnd(0), now, now))

    def told(self, event: EndpointEvent, now: float) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(event, now, now))

    def silence(self, seconds: float, now: float, completeness: float | None = None) -> list[TurnCommand]:
        return self.do(self.turns.on_endpoint(Silence(round(seconds * S), completeness), now, now))

    # the engines

    def hear(self, text: str, now: float, work: Work | None = None, *, upto: int = HEARD_ALL) -> list[TurnCommand]:
        return self.do(self.turns.on_transcript(work or self.asked[WorkKind.FINAL], text, "", upto, NO_TIME, now))

    def think(self, text: str, now: float, *, last: bool = False, work: Work | None = None) -> list[TurnCommand]:
        work = work or self.asked[WorkKind.THINK]
        return self.do(self.turns.on_thought(work, text, last, NO_TIME, now))

    def say(self, seconds: float, now: float, *, last: bool = True, work: Work | None = None) -> list[TurnCommand]:
        work = work or self.asked[WorkKind.SPEAK]
        return self.do(self.turns.on_spoken(work, pcm(seconds), last, NO_TIME, now))

    # time

    def wait(self, until: float) -> list[TurnCommand]:
        """Let every timer fire that is due until then."""
        fired: list[TurnCommand] = []
        while (deadline := self.turns.next_deadline()) is not None and deadline <= until:
            fired += self.do(self.turns.on_timer(deadline))
        return fired

    # stories

    def until_final(self, text: str = "Hello there.") -> Talk:
        """Speech from 0 to 1.0 s; the final is there at 1.02."""
        self.speak(0.0)
        self.voiced(1.0, 1.0)
        self.soft_end(1.0)
        self.hear(text, 1.02)
        return self

    def until_committed(self, text: str = "Hello there.") -> Talk:
        """Committed at 1.1, no word of the reply yet."""
        self.until_final(text).silence(0.096, 1.1)
        assert self.phase is Phase.COMMITTED
        return self

    def until_replying(self, seconds: float = 2.0) -> Talk:
        """The whole reply "One two. Three four." is made, its first frame was sent at 1.2."""
        self.until_committed()
        self.think("One two. Three four.", 1.15, last=True)
        self.say(seconds / 2, 1.2)
        self.do(self.turns.on_sent(self.turns.epoch, 1.2))
        self.say(seconds / 2, 1.2)
        return self

    @property
    def phase(self) -> Phase:
        return self.turns.snapshot().phase

    @property
    def history(self) -> list[tuple[str, str]]:
        return [(line.role, line.text) for line in self.turns.snapshot().history]

    def verdict(self) -> Verdict:
        """Of the turn that the last commands ended."""
        (ended,) = [c for c in self.last if isinstance(c, TurnEnded)]
        return ended.record.verdict


# --- hearing ---------------------------------------------------------------------------------------------------


def test_before_anybody_has_spoken_nothing_is_the_matter() -> None:
    """No turn, no timer, no answer to whatever comes."""
    turns = Talk().turns
    work = Work(1, "s", 1, 1, 0, WorkKind.THINK, WorkClass.STARTED)
    assert turns.span() is None
    assert turns.next_deadline() is None
    assert turns.snapshot().phase is Phase.ENDED
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
    span = talk.turns.span()
    assert span is not None and (span.turn, span.start, span.speech_samples) == (1, 3_200, 0)
    talk.voiced(0.25, 0.5)
    assert talk.turns.span() == replace(span, speech_samples=4_000)


def test_partials_are_asked_for_and_told_while_the_user_speaks() -> None:
    """Under the epoch that the commit will open."""
    talk = Talk()
    talk.speak(0.0)
    assert talk.voiced(0.6, 0.6) == [Submit(Work(2, "s", 1, 1, 0, WorkKind.PARTIAL, WorkClass.ASR))]
    timing = Timing(0.6, 0.6, 0.7)
    assert talk.turns.on_transcript(talk.asked[WorkKind.PARTIAL], "what", "is", 0, timing, 0.7) == [
        PartialTranscript(1, "what", "is")
    ]


def heard(talk: Talk, kind: WorkKind, stable: str, tentative: str, now: float) -> list[str]:
    """Of all but what was said in the last 30 ms."""
    upto = round((now - 0.03) * S)
    return kinds(talk.do(talk.turns.on_transcript(talk.asked[kind], stable, tentative, upto, NO_TIME, now)))


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


def lulled(talk: Talk, at_s: float) -> None:
    """Speech whose sound has fallen away at `at_s`; what was asked for then is in `asked`."""
    talk.speak(0.0)
    talk.voiced(at_s, at_s)
    talk.do(talk.turns.on_endpoint(Lull(round(at_s * S), round((at_s + 0.02) * S)), at_s, at_s + 0.02))


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
    assert talk.do(talk.turns.on_endpoint(SoftEnd(round(1.06 * S)), 1.0, 1.09)) == []
    assert kinds(talk.silence(0.096, 1.16)) == ["FinalTranscript", "Committed", "Promote"]


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


def test_an_enforced_turn_without_content_is_refused_at_its_deadline() -> None:
    """200 ms after speech end, and nothing of it is said; the words stay in the history."""
    talk = Talk(enforce=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("Hello there.", 1.05)
    talk.silence(0.1, 1.1)
    assert talk.turns.next_deadline() == pytest.approx(1.2)
    assert talk.do(talk.turns.on_timer(1.19)) == []
    retire, ended = talk.do(talk.turns.on_timer(1.2))
    assert retire == Retire(2, 0)
    assert isinstance(ended, TurnEnded) and ended.record.verdict is Verdict.REFUSED
    assert talk.turns.snapshot().history == (Line("user", "Hello there."),)
    assert talk.turns.on_timer(1.3) == [] and talk.turns.next_deadline() is None


def test_an_enforced_turn_that_is_committed_after_its_deadline_is_refused() -> None:
    """Though its reply is ready: nothing of it is said."""
    talk = Talk(enforce=True)
    talk.until_final("and")
    talk.think("One two. Three.", 1.03, last=True)
    talk.say(0.1, 1.05)
    assert kinds(talk.silence(1.4, 2.4)) == ["FinalTranscript", "Committed", "Promote", "Retire", "TurnEnded"]
    assert talk.verdict() is Verdict.REFUSED
    assert talk.history == [("user", "and")]


def test_an_enforced_turn_with_content_in_time_is_not_refused() -> None:
    talk = Talk(enforce=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("Hello there.", 1.05)
    talk.do(talk.turns.on_thought(talk.asked[WorkKind.THINK], "Yes.", True, NO_TIME, 1.07))
    talk.do(talk.turns.on_spoken(talk.asked[WorkKind.SPEAK], pcm(0.5), True, NO_TIME, 1.09))
    assert "ReplyAudio" in kinds(talk.silence(0.1, 1.1))
    assert not any(isinstance(command, TurnEnded) for command in talk.turns.on_timer(1.2))


def test_after_a_false_start_more_silence_is_asked_for() -> None:
    """In the same turn already; three frames were too few."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    talk.hear("One is it.", 1.05)
    assert "Committed" in kinds(talk.silence(0.096, 1.1))
    talk.resume(1.2, start=1_920)  # after 120 ms
    assert "Reopened" in kinds(talk.voiced(0.1, 1.3))
    talk.soft_end(2.0)
    talk.hear("One is it. Two is it.", 2.05)
    assert "Committed" not in kinds(talk.silence(0.128, 2.13))
    assert "Committed" in kinds(talk.silence(0.16, 2.16))


def test_slow_partials_are_asked_for_less_often() -> None:
    """The hop follows a smoothed mean of what the steps took."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    slow = Timing(0.6, 0.6, 2.6)
    talk.turns.on_transcript(talk.asked[WorkKind.PARTIAL], "what", "", 0, slow, 2.6)
    # 30 % of the 2 s that went by are 0.6, and 1.5 times that is the hop.
    assert talk.voiced(1.4, 2.7) == []
    assert kinds(talk.voiced(1.5, 2.8)) == ["PARTIAL"]


def test_a_pause_asks_for_the_final_with_the_turns_deadline() -> None:
    """The deadline runs from the end of speech."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.4, 0.4)
    (command,) = talk.do(talk.turns.on_endpoint(SoftEnd(0), 0.45, 0.5))
    assert isinstance(command, Submit)
    assert (command.work.kind, command.work.klass) == (WorkKind.FINAL, WorkClass.STARTED)
    assert command.work.deadline == pytest.approx(0.65)


def test_the_final_begins_the_reply_ahead_of_the_commit() -> None:
    """The conversation with the user's words, under the coming epoch; nothing is told yet."""
    talk = Talk()
    talk.turns.on_line(Line("user", "Earlier."))
    talk.until_final()
    withdraw, command = talk.last
    assert withdraw == Withdraw(talk.asked[WorkKind.WARM])
    assert isinstance(command, Submit)
    assert (command.work.kind, command.work.epoch) == (WorkKind.THINK, 1)
    assert command.work.klass is WorkClass.SPECULATION
    assert talk.thoughts[0].lines == (
        Line("system", "Be brief."),
        Line("user", "Earlier."),
        Line("user", "Hello there."),
    )
    assert talk.phase is Phase.HEARING
    assert talk.history == [("user", "Earlier.")]


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


def test_quiet_from_the_end_of_sound_commits_too() -> None:
    """The detector has only told of 64 ms by then. Quiet that was broken counts from its new beginning."""
    talk = Talk().until_final()
    assert talk.silence(0.064, 1.07) == []
    assert talk.told(Quiet(1_280), 1.08) == []
    assert talk.told(Swell(16_640), 1.085) == []
    assert talk.told(Quiet(320), 1.09) == []
    assert Committed(1, 1) in talk.told(Quiet(1_600), 1.1)


def test_quiet_alone_ends_nothing() -> None:
    """While the detector hears speech, a lull is no pause, however long."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    assert talk.told(Quiet(8_000), 1.5) == []
    assert talk.phase is Phase.HEARING


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


def test_the_wait_depends_on_the_words() -> None:
    """Who stops after "and" has not finished; the hard cap ends every wait."""
    talk = Talk().until_final("I would like tea and")
    assert talk.silence(1.376, 2.376) == []
    assert "Committed" in kinds(talk.silence(1.4, 2.4))


def test_a_final_after_the_silence_commits_on_arrival() -> None:
    """No second wait: the silence has been long enough already."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    assert talk.silence(0.5, 1.5) == []
    assert kinds(talk.hear("Hello there.", 1.51)) == [
        "Withdraw",
        "THINK",
        "FinalTranscript",
        "Committed",
        "Promote",
    ]


def test_an_empty_final_ends_the_turn_without_a_commit() -> None:
    """Humming: no words, no reply, no line, no epoch."""
    talk = Talk().until_final("")
    assert talk.last == []
    assert kinds(talk.silence(0.64, 1.64)) == ["TurnEnded"]
    assert talk.verdict() is Verdict.EMPTY
    assert (talk.turns.epoch, talk.history) == (0, [])


def test_words_that_vanish_take_the_reply_with_them() -> None:
    """The first pause had words, the last decode has none."""
    talk = Talk().until_final()
    talk.resume(1.2)
    talk.voiced(0.3, 1.5)
    talk.soft_end(1.5)
    talk.hear("", 1.52)
    assert kinds(talk.silence(0.64, 2.2)) == ["Retire", "TurnEnded"]
    assert talk.verdict() is Verdict.EMPTY


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


# --- speculation -----------------------------------------------------------------------------------------------


def test_the_reply_stays_valid_if_the_pause_was_none_and_the_words_stay_the_same() -> None:
    """A breath: the same text again, with other punctuation."""
    talk = Talk().until_final("Hello there.")
    first = talk.asked[WorkKind.THINK]
    talk.resume(1.2)
    talk.voiced(0.1, 1.3)
    talk.soft_end(1.3)
    assert talk.hear("hello, there!", 1.32) == []
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


@pytest.mark.parametrize(("one", "other"), [("Hello, there!", "hello there"), ("It's  5.", "it's 5"), ("", "...")])
def test_texts_that_sound_alike_are_the_same(one: str, other: str) -> None:
    """Case, punctuation and spaces are not heard."""
    assert normalised(one) == normalised(other)


def test_texts_with_other_words_are_not_the_same() -> None:
    """A word more, a word less, an apostrophe."""
    assert len({normalised(text) for text in ("we are", "we're", "we are here", "we")}) == 4


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


# --- replying --------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("epoch", [0, 2, 99])
def test_a_report_about_another_epoch_says_nothing(epoch: int) -> None:
    """Stale or unknown ids are ignored."""
    talk = Talk().until_replying(0.4)
    assert talk.do(talk.turns.on_report(epoch, 400, 1.3)) == []
    assert talk.phase is Phase.COMMITTED


def test_an_empty_reply_is_a_failure() -> None:
    """No silent turn."""
    talk = Talk().until_committed()
    commands = talk.think("", 1.2, last=True)
    assert commands[:2] == [TurnFailed(1, "empty_reply", Stage.LLM), ReplyInterrupted(1, 1, 0)]
    assert talk.verdict() is Verdict.FAILED
    assert talk.history == [("user", "Hello there.")]


# --- speech over a reply ---------------------------------------------------------------------------------------


def test_speech_within_the_grace_time_reopens_the_turn() -> None:
    """96 ms of it: the commit was a false start. One turn, the user's line comes out of the history again."""
    talk = Talk().until_committed()
    assert talk.resume(1.2) == []
    assert talk.voiced(0.09, 1.3, at=1.4) == []
    commands = talk.voiced(0.096, 1.3, at=1.4)
    assert commands == [Reopened(1, 2), Retire(3, 1)]
    assert talk.phase is Phase.HEARING
    assert talk.history == []
    span = talk.turns.span()
    assert span is not None and (span.turn, span.start) == (1, 0)


def test_a_reopened_turn_is_answered_as_one() -> None:
    """Both halves are one text, one commit counts, one verdict is told."""
    talk = Talk().until_committed()
    talk.resume(1.2)
    talk.voiced(0.096, 1.3, at=1.4)
    talk.soft_end(2.0)
    talk.hear("Hello there, my friend.", 2.02)
    assert talk.thoughts[-1].lines[1:] == (Line("user", "Hello there, my friend."),)
    assert Committed(1, 3) in talk.silence(0.16, 2.16)
    talk.do(talk.turns.on_cancel(2.2))
    (ended,) = [c for c in talk.last if isinstance(c, TurnEnded)]
    assert (ended.record.turn, ended.record.reopened) == (1, 1)


def test_a_reopening_takes_out_the_users_line_and_no_other() -> None:
    """What the client has added since stays."""
    talk = Talk().until_committed()
    talk.turns.on_line(Line("system", "It is raining."))
    talk.resume(1.2)
    talk.voiced(0.096, 1.3, at=1.4)
    assert talk.history == [("system", "It is raining.")]


def test_grace_lasts_until_a_while_after_the_first_sound() -> None:
    """800 ms after it was sent, the same speech is no false start any more."""
    talk = Talk().until_replying()
    talk.resume(1.95)
    assert "Reopened" in kinds(talk.voiced(0.1, 1.99))
    talk = Talk().until_replying()
    talk.resume(1.95)
    assert talk.voiced(0.1, 2.01) == []
    assert talk.phase is Phase.COMMITTED


def test_grace_waits_for_the_first_sound_however_long_that_takes() -> None:
    """As long as nothing was heard, speech goes on with the turn."""
    talk = Talk().until_committed()
    talk.resume(8.0)
    assert "Reopened" in kinds(talk.voiced(0.1, 8.1))


def test_speech_after_the_grace_time_interrupts() -> None:
    """256 ms of it: the heard words stay, marked as cut; the next turn begins where the speech began."""
    talk = Talk().until_replying()
    talk.wait(2.5)
    talk.resume(2.2, start=40_000)
    assert talk.voiced(0.25, 2.45) == []
    commands = talk.voiced(0.256, 2.5)
    assert kinds(commands) == ["ReplyInterrupted", "Retire", "TurnEnded", "SpeechStarted", "WARM"]
    assert commands[0] == ReplyInterrupted(1, 1, 1300)
    assert commands[1] == Retire(2, 0)
    assert commands[3] == SpeechStarted(2)
    assert talk.history[-1] == ("assistant", "One two. …")
    assert (talk.turns.epoch, talk.phase) == (2, Phase.HEARING)
    span = talk.turns.span()
    assert span is not None and (span.turn, span.start) == (2, 40_000)


def test_a_cough_interrupts_nothing() -> None:
    """It ends before it counts, and the next one starts from nothing."""
    talk = Talk().until_replying()
    talk.resume(2.2)
    assert talk.voiced(0.2, 2.4) == []
    assert talk.soft_end(2.4) == []
    assert talk.voiced(0.3, 2.7) == []
    assert talk.phase is Phase.COMMITTED


def test_a_cough_before_the_first_sound_leaves_the_turn_to_be_answered() -> None:
    """Too short even for a reopening."""
    talk = Talk().until_committed()
    talk.resume(1.2)
    assert talk.voiced(0.08, 1.3) == []
    assert talk.soft_end(1.3) == []
    talk.think("One.", 1.4, last=True)
    assert "ReplyAudio" in kinds(talk.say(0.2, 1.5))


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


def test_speech_over_a_reply_that_may_not_be_interrupted_is_ignored() -> None:
    """And the next turn comes as ever."""
    talk = Talk(interruptible=False).until_replying()
    talk.resume(1.5)
    assert talk.voiced(1.0, 2.5) == []
    assert talk.soft_end(2.5) == []
    talk.wait(8.0)
    assert talk.phase is Phase.ENDED
    assert talk.resume(9.0, start=99)[0] == SpeechStarted(2)


def test_speech_that_began_over_the_end_of_a_reply_opens_the_next_turn() -> None:
    """Not long enough to interrupt when the reply ended by itself; nothing of it is lost."""
    talk = Talk().until_replying(2.0)
    talk.wait(3.15)
    talk.resume(3.1, start=50_000)
    talk.voiced(0.1, 3.15)
    assert kinds(talk.wait(3.3)) == ["TurnEnded", "SpeechStarted", "WARM"]
    span = talk.turns.span()
    assert span is not None and span.start == 50_000
    assert talk.history[-1] == ("assistant", "One two. Three four.")


def test_nothing_of_an_interrupted_reply_is_answered_any_more() -> None:
    """Late results of the old epoch are dropped in the middle of the next turn."""
    talk = Talk().until_committed()
    talk.think("One. ", 1.15)
    speak, think = talk.asked[WorkKind.SPEAK], talk.asked[WorkKind.THINK]
    talk.do(talk.turns.on_cancel(1.2))
    assert talk.say(2.0, 1.3, work=speak) == []
    talk.speak(1.4)
    assert talk.say(2.0, 1.5, work=speak) == []
    assert talk.think("Two. ", 1.5, work=think) == []


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


def test_a_cancel_while_speech_may_be_a_barge_in_opens_the_next_turn() -> None:
    """The user is speaking: the speech belongs to the turn after."""
    talk = Talk().until_replying()
    talk.resume(2.2, start=7)
    talk.voiced(0.1, 2.3)
    assert SpeechStarted(2) in talk.do(talk.turns.on_cancel(2.35))


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


def test_speech_does_not_go_on_with_a_typed_turn() -> None:
    """It interrupts it, by the threshold of a barge-in."""
    talk = Talk()
    talk.do(talk.turns.on_text("Hi.", 5.0))
    talk.speak(5.1)
    assert talk.voiced(0.2, 5.3) == []
    assert "ReplyInterrupted" in kinds(talk.voiced(0.256, 5.4))


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


def test_speech_does_not_go_on_with_a_turn_that_nobody_spoke() -> None:
    """A reply that was asked for is interrupted by speech, not opened again."""
    talk = Talk()
    talk.do(talk.turns.on_create(1.0))
    talk.speak(1.1)
    assert talk.voiced(0.2, 1.3) == []
    assert "ReplyInterrupted" in kinds(talk.voiced(0.256, 1.4))


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


def test_speech_after_a_demanded_commit_is_the_next_turn() -> None:
    """The commit was no guess, so it is not taken back: such speech interrupts."""
    talk = Talk(manual=True)
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.do(talk.turns.on_commit_asked(1.0))
    talk.soft_end(1.1)
    talk.resume(1.2, start=20_000)
    talk.hear("Hello.", 1.25)
    assert talk.voiced(0.1, 1.3) == []
    assert SpeechStarted(2) in talk.voiced(0.256, 1.5)
    assert talk.verdict() is Verdict.INTERRUPTED


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


def test_a_failing_final_fails_the_turn() -> None:
    """Without a text there is nothing to answer."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(1.0, 1.0)
    talk.soft_end(1.0)
    commands = talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.FINAL], "engine_failed", 1.1))
    assert commands[0] == TurnFailed(1, "engine_failed", Stage.ASR)
    assert talk.verdict() is Verdict.FAILED
    assert talk.speak(2.0)[0] == SpeechStarted(2)


def test_a_failing_partial_costs_nothing() -> None:
    """The next one, or the final, will do."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    assert talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.PARTIAL], "engine_failed", 0.7)) == []
    assert kinds(talk.voiced(1.2, 1.2)) == ["PARTIAL"]


def test_a_discarded_partial_makes_room_for_the_next() -> None:
    """It waited at the device and will not run."""
    talk = Talk()
    talk.speak(0.0)
    talk.voiced(0.6, 0.6)
    talk.turns.on_discarded(talk.asked[WorkKind.PARTIAL])
    assert kinds(talk.voiced(1.2, 1.2)) == ["PARTIAL"]


@pytest.mark.parametrize("kind", [WorkKind.THINK, WorkKind.SPEAK])
def test_a_failing_reply_fails_its_turn(kind: WorkKind) -> None:
    """After the commit there is no other try; the client is told where it failed."""
    talk = Talk().until_committed()
    talk.think("One. ", 1.15)
    commands = talk.do(talk.turns.on_engine_failed(talk.asked[kind], "engine_failed", 1.2))
    assert commands[0] == TurnFailed(1, "engine_failed", kind.stage)
    assert kinds(commands)[1:] == ["ReplyInterrupted", "Retire", "TurnEnded"]
    assert talk.verdict() is Verdict.FAILED


def test_a_speculation_that_fails_is_tried_again_at_the_commit() -> None:
    """Nobody has been promised anything yet."""
    talk = Talk().until_final()
    commands = talk.do(talk.turns.on_engine_failed(talk.asked[WorkKind.THINK], "engine_failed", 1.05))
    assert commands == [Retire(1, 1)]
    commands = talk.silence(0.096, 1.1)
    assert kinds(commands) == ["FinalTranscript", "Committed", "THINK"]


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


def test_deaf_ears_fail_the_turn_that_is_being_heard() -> None:
    """What was said in it is not known; a reply that is being given is none of their business."""
    talk = Talk()
    assert talk.do(talk.turns.on_deaf("engine_failed", 0.0)) == []
    talk.speak(0.0)
    assert talk.do(talk.turns.on_deaf("engine_failed", 0.5))[0] == TurnFailed(1, "engine_failed", Stage.ENDPOINT)
    assert talk.verdict() is Verdict.FAILED
    talk = Talk().until_replying()
    assert talk.do(talk.turns.on_deaf("engine_failed", 1.3)) == []


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


def test_a_speculation_that_hangs_does_not_end_a_turn_that_is_still_being_heard() -> None:
    """The user goes on and on; the reply is given up, and begun again at the commit."""
    talk = Talk().until_final()
    talk.resume(1.2)
    assert talk.do(talk.turns.on_timer(11.1)) == [Retire(1, 1)]
    assert talk.phase is Phase.HEARING
    assert talk.turns.next_deadline() is None
    talk.soft_end(12.0)
    assert "THINK" in kinds(talk.hear("Hello there.", 12.1))


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


# --- reading ahead ---------------------------------------------------------------------------------------------


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


# --- acknowledgements and second passes

MASKS = AcknowledgeSettings(sounds=(pcm(0.1),), one_in=1, lead_s=0.01)
SLOW_REPLY = Outlook(reading_s=9.0)


def masked(**changes: object) -> Talk:
    """Speech has ended at 1.0, the turn is committed at 1.1, and the model thinks. The deadline is 1.2."""
    talk = Talk(acknowledge=MASKS, **changes)
    talk.turns.on_outlook(SLOW_REPLY)
    talk.until_final()
    talk.silence(0.1, 1.1)
    assert talk.turns.snapshot().phase is Phase.COMMITTED
    return talk


def test_nothing_is_acknowledged_before_the_commit() -> None:
    """The deadline may pass: who has not finished is not told "mm-hm"."""
    talk = Talk(acknowledge=MASKS, manual=True)
    talk.turns.on_outlook(SLOW_REPLY)
    talk.until_final()
    assert [c for c in talk.wait(1.5) if isinstance(c, Acknowledged | ReplyAudio)] == []


def test_an_acknowledged_turn_is_masked_and_its_grace_runs_from_the_content() -> None:
    """The sound is no answer: the user may still go on, long after it."""
    talk = masked()
    assert [type(c).__name__ for c in talk.wait(1.195)] == ["Acknowledged", "ReplyAudio"]
    talk.turns.on_acknowledged(1, 1.191)
    talk.speak(2.5, start=40_000)
    assert isinstance(talk.voiced(0.1, 2.6, at=2.6)[0], Reopened)


def test_an_acknowledgement_of_another_epoch_marks_nothing() -> None:
    """It had been given out when its turn was reopened."""
    talk = masked()
    talk.wait(1.195)
    talk.turns.on_acknowledged(7, 1.195)
    talk.think("Yes. ", 1.4, last=True)
    talk.say(0.1, 1.5)
    talk.turns.on_sent(1, 1.5)
    (ended,) = [c for c in talk.wait(3.0) if isinstance(c, TurnEnded)]
    assert ended.record.verdict is Verdict.MISSED and ended.record.instants.acknowledged is None


def test_who_may_have_gone_on_is_not_talked_over() -> None:
    """Speech too short to take the commit back, at the deadline."""
    talk = masked()
    talk.speak(1.17, start=18_720)
    talk.voiced(0.032, 1.18, at=1.18)
    assert [c for c in talk.wait(1.3) if isinstance(c, Acknowledged)] == []


def test_what_was_said_is_corrected_wherever_the_turn_stands() -> None:
    """In the history and for the client; a reply that is being made stays as it is."""
    talk = Talk(second_pass=True).until_final("I want a bare.")
    commands = talk.silence(0.1, 1.1)
    assert "SECOND_PASS" in kinds(commands)
    work = talk.asked[WorkKind.SECOND_PASS]
    assert talk.turns.on_reheard(work, "I want a pear.", True) == [Corrected(1, "I want a pear.")]
    assert talk.turns.snapshot().history == (Line("user", "I want a pear."),)
    assert talk.thoughts[-1].lines[-1] == Line("user", "I want a bare.")


def test_a_corrected_turn_can_still_be_reopened() -> None:
    """Its corrected line leaves the history, as the first one would have."""
    talk = Talk(second_pass=True).until_final("I want a bare.")
    talk.silence(0.1, 1.1)
    talk.turns.on_reheard(talk.asked[WorkKind.SECOND_PASS], "I want a pear.", True)
    talk.speak(1.3, start=20_800)
    assert "Reopened" in kinds(talk.voiced(0.1, 1.4, at=1.4))
    assert talk.turns.snapshot().history == ()


def test_a_line_that_has_left_the_history_is_not_corrected() -> None:
    """Nobody reads it any more, and the client is not told either."""
    talk = Talk(second_pass=True, max_lines=1).until_final("I want a bare.")
    talk.silence(0.1, 1.1)
    talk.turns.on_line(Line("user", "Something else."))
    assert talk.turns.on_reheard(talk.asked[WorkKind.SECOND_PASS], "I want a pear.", True) == []
    assert talk.turns.snapshot().history == (Line("user", "Something else."),)


def test_a_second_pass_that_fails_does_not_fail_the_turn() -> None:
    """Nor does one that is dropped."""
    talk = Talk(second_pass=True).until_final()
    talk.silence(0.1, 1.1)
    work = talk.asked[WorkKind.SECOND_PASS]
    assert talk.turns.on_engine_failed(work, "engine_failed", 1.2) == []
    assert talk.turns.on_discarded(work) == []
    assert talk.turns.snapshot().phase is Phase.COMMITTED


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


# --- the turn model ----------------------------------------------------------------------------------------------


def asked(**changes: object) -> Talk:
    """At `balanced`, in the first frame of a pause behind a whole request."""
    talk = Talk(turn_model=True, **{"patience": OPERATING_POINTS["balanced"], **changes})
    talk.until_final("Tell me more.")
    talk.silence(0.032, 1.03)
    return talk


def scored(talk: Talk, score: float, now: float, work: Work | None = None) -> list[str]:
    return kinds(talk.do(talk.turns.on_score(work or talk.asked[WorkKind.JUDGE], score, now)))


def test_a_turn_model_is_asked_once_the_words_of_a_pause_are_known() -> None:
    """In the class of recognition, for the turn that the commit will open, beside the reply."""
    talk = asked()
    work = talk.asked[WorkKind.JUDGE]
    assert (work.klass, work.epoch, work.kind.stage) == (WorkClass.ASR, 1, Stage.ENDPOINT)
    assert WorkKind.THINK in talk.asked
    assert talk.silence(0.064, 1.07) == [], "one question at a time"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"turn_model": False}, "Tell me more."),
        ({"manual": True}, "Tell me more."),
        ({"patience": OPERATING_POINTS["fast"]}, "Tell me more."),
        ({"patience": OPERATING_POINTS["safe"]}, "Tell me more."),
        ({}, "Tell me more and"),
        ({}, ""),
    ],
)
def test_it_is_asked_only_where_its_answer_can_matter(changes: dict[str, object], text: str) -> None:
    """There is one, silence ends turns, and it waits neither too little nor as long as can be."""
    settings = {"turn_model": True, "patience": OPERATING_POINTS["balanced"], **changes}
    talk = Talk(**settings)
    talk.until_final(text)
    talk.silence(0.032, 1.03)
    assert WorkKind.JUDGE not in talk.asked


def test_undecided_words_leave_time_for_a_question_at_the_fast_point_too() -> None:
    talk = asked(patience=OPERATING_POINTS["fast"])
    talk.resume(1.1)
    talk.voiced(0.5, 1.6, at=1.6)
    talk.soft_end(1.6)
    talk.hear("tell me more", 1.65)
    assert WorkKind.JUDGE in talk.asked


def test_a_sound_without_an_end_makes_the_turn_wait() -> None:
    """Until the silence that an open end gets, or until it sounds finished after all."""
    talk = asked()
    assert scored(talk, 0.01, 1.1) == []
    assert "JUDGE" in kinds(talk.silence(0.256, 1.26)), "not committed: asked again"
    assert "Committed" in scored(talk, 0.6, 1.3)


def test_without_another_word_from_it_the_wait_ends_all_the_same() -> None:
    talk = asked()
    scored(talk, 0.01, 1.1)
    talk.silence(1.376, 2.38)
    assert talk.phase is Phase.HEARING
    assert "Committed" in kinds(talk.silence(1.408, 2.41))


def test_an_answer_that_comes_after_the_commit_is_nobodys() -> None:
    """Its question was withdrawn; it ran already."""
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    assert Withdraw(question) in talk.silence(0.256, 1.26)
    assert scored(talk, 0.0, 1.3, question) == []
    assert talk.phase is Phase.COMMITTED


def test_speech_takes_its_question_back() -> None:
    """The answer to it says nothing about the next pause."""
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    assert talk.resume(1.1) == [Withdraw(question)]
    talk.voiced(0.5, 1.6, at=1.6)
    talk.soft_end(1.6)
    assert scored(talk, 0.0, 1.62, question) == []
    talk.hear("Tell me more. Now.", 1.65)
    assert talk.asked[WorkKind.JUDGE] != question
    assert "Committed" in kinds(talk.silence(0.256, 1.86))


def test_a_turn_that_fails_takes_its_question_along() -> None:
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    assert Withdraw(question) in talk.do(talk.turns.on_deaf("engine_failed", 1.1))
    assert scored(talk, 0.0, 1.2, question) == []


@pytest.mark.parametrize("how", ["fails", "discarded"])
def test_a_question_that_comes_to_nothing_leaves_the_words_alone(how: str) -> None:
    """No turn fails of it, and the next question is asked."""
    talk = asked()
    question = talk.asked[WorkKind.JUDGE]
    if how == "fails":
        assert talk.do(talk.turns.on_engine_failed(question, "engine_failed", 1.1)) == []
    else:
        talk.turns.on_discarded(question)
    assert kinds(talk.silence(0.224, 1.23)) == []
    assert "Committed" in kinds(talk.silence(0.256, 1.26))


# --- what the device is to keep free for it --------------------------------------------------------------


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
