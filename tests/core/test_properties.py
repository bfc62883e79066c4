"""What holds for the turns of a session in every order of events.

A model driver plays the device, the client, the user and the clock: it answers what was asked in any legal
order, late answers too, and checks every command against what the session has been told so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from hypothesis import HealthCheck, settings
from hypothesis import Phase as Step
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from voicepipe.core.acknowledge import AcknowledgeSettings
from voicepipe.core.endpoint import Endpointer
from voicepipe.core.events import (
    Acknowledged,
    Committed,
    Corrected,
    FinalTranscript,
    Line,
    Promote,
    Reopened,
    ReplyAudio,
    ReplyDone,
    ReplyInterrupted,
    ReplyText,
    Retire,
    SpeechStarted,
    Submit,
    Timing,
    TurnCommand,
    TurnEnded,
    TurnFailed,
    TurnRecord,
    Verdict,
    Withdraw,
    Work,
    WorkKind,
)
from voicepipe.core.forecast import Outlook
from voicepipe.core.lull import LullSettings, LullTracker
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.playout import PlayoutSettings
from voicepipe.core.reply import ReplySettings
from voicepipe.core.scheduler import is_stale
from voicepipe.core.turn import Turns
from voicepipe.core.turn_state import Phase, TurnSettings

RATE = 1000
FRAME = 512
FRAME_S = FRAME / 16_000
BLOCK = LullSettings().block_samples
MAX_LINES = 6
TIMEOUT_S = 10.0
SETTINGS = TurnSettings(
    reply=ReplySettings(PlayoutSettings(RATE)),
    patience=OPERATING_POINTS["fast"],
    instructions="Be brief.",
    max_turn_s=20.0,
    engine_timeout_s=TIMEOUT_S,
    max_lines=MAX_LINES,
)
TEXTS = ["", "Hello there.", "hello there", "Hello there, you.", "and", "My number is 555"]
SOUNDS = (b"\x07\x00" * 90, b"\x08\x00" * 700)
"""What acknowledges; nothing else in the stream sounds like it."""
MASKS = AcknowledgeSettings(sounds=SOUNDS, one_in=2)
THOUGHTS = ["", "One two three. ", "Four, five", " six seven.", "Eight! Nine? "]
WORDS = "|".join(re.findall(r"\w+", " ".join(THOUGHTS)))
THOUGHT_WORDS = re.compile(rf"(?:(?:{WORDS})[.,!?]? ?)+…?")


def _accounted_s(record: TurnRecord) -> float:
    """What the stages add up to."""
    if record.verdict is not Verdict.REFUSED:
        return record.felt_estimate_s or 0.0
    assert record.instants.speech_end is not None and record.instants.ended is not None
    return record.instants.ended - record.instants.speech_end


class Conversation(RuleBasedStateMachine):
    """The model driver."""

    make_turns: Callable[[str, TurnSettings, Iterator[int]], Turns] = Turns

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.lane_free_at = 100.0
        self.frame = 0
        self.endpointer = Endpointer()
        self.lulls = LullTracker()
        self.next_block = 0
        self.asked: dict[int, Work] = {}
        """Works the device has, current or not, in the order in which they were asked for."""
        self.retired: tuple[int, int] = (0, 0)
        self.withdrawn: set[int] = set()
        self.ids: set[int] = set()
        self.open_epoch: int | None = None
        self.newest_epoch = 0
        self.stamp = (0, 0)
        self.offset = 0
        self.audible: list[int] = []
        """Epochs of which content has been given out, in order."""
        self.acknowledged: list[tuple[int, int]] = []
        """(turn, epoch) of the acknowledgements, in order."""
        self.content_from = 0
        """Where the open reply's content begins."""
        self.told_text = False
        self.started = 0
        self.ended: list[int] = []

    @initialize(
        manual=st.sampled_from([False, False, False, True]),
        auto_reply=st.sampled_from([True, True, True, False]),
        interruptible=st.sampled_from([True, True, True, False]),
        masks=st.booleans(),
        enforce=st.sampled_from([False, False, True]),
        turn_model=st.booleans(),
        point=st.sampled_from(["fast", "fast", "balanced"]),
    )
    def begin(
        self,
        manual: bool,
        auto_reply: bool,
        interruptible: bool,
        masks: bool,
        enforce: bool,
        turn_model: bool,
        point: str,
    ) -> None:
        self.settings = replace(
            SETTINGS,
            patience=OPERATING_POINTS[point],
            manual=manual,
            auto_reply=auto_reply,
            interruptible=interruptible,
            turn_model=turn_model,
            enforce=enforce,
            acknowledge=MASKS if masks else AcknowledgeSettings(),
            second_pass=masks,
            may_shrink=masks,
        )
        self.turns = self.make_turns("s", self.settings, count(1))
        self.turns.on_outlook(Outlook(reading_s=0.1, audio_s=0.05, audio_base_s=0.05))
        self.take(self.turns.on_opened(self.now))

    # --- the user

    @rule(speech=st.integers(2, 40), silence=st.integers(1, 6))
    def utters(self, speech: int, silence: int) -> None:
        """The usual: words, and a pause that may be one or may end the turn."""
        self.sound(1.0, speech)
        self.sound(0.0, silence)

    @rule(steps=st.integers(1, 12), more=st.integers(1, 12))
    def hesitates(self, steps: int, more: int) -> None:
        """A pause long enough to be answered, and then the user goes on: false starts, coughs and barge-ins."""
        self.utters(20, 5)
        self.works("Hello there.", steps, 0.01)
        self.sound(1.0, more)

    @rule(speech=st.integers(8, 40), seconds=st.sampled_from([0.1, 0.3, 1.0]), steps=st.integers(0, 12))
    def is_answered_late(self, speech: int, seconds: float, steps: int) -> None:
        """The words are heard at once, and the model takes its time."""
        self.sound(1.0, speech)
        self.sound(0.0, 2)
        for work in self.of(WorkKind.PARTIAL, WorkKind.FINAL):
            self.hears_this(work, "Hello there.")
        self.sound(0.0, 3)
        self.time_passes(seconds)
        if self.acknowledged:
            self.acknowledgement_has_been_sent(1)
        self.works("Hello there, you.", steps, 0.03)
        self.time_passes(3.0 if steps > 6 else 0.0)

    @rule(probability=st.sampled_from([0.0, 0.4, 1.0]), frames=st.integers(1, 30))
    def sound(self, probability: float, frames: int) -> None:
        """The level falls with the probability, also where that is still enough to go on with speech."""
        for _ in range(frames):
            self.now += FRAME_S
            while self.next_block + BLOCK <= (self.frame + 1) * FRAME:
                for change in self.lulls.on_level(-20.0 if probability > 0.5 else -80.0, self.next_block):
                    self.take(self.turns.on_endpoint(change, self.now - 0.02, self.now))
                self.next_block += BLOCK
            for event in self.endpointer.on_frame(probability, self.frame * FRAME, FRAME):
                self.take(self.turns.on_endpoint(event, self.now - 0.03, self.now))
            self.frame += 1

    # --- the device: answers come one by one, in any order between stages, in order within the Llm and the Tts

    def of(self, *kinds: WorkKind) -> list[Work]:
        return [work for work in self.asked.values() if work.kind in kinds]

    def current(self, work: Work) -> bool:
        return work.id not in self.withdrawn and not is_stale(work, *self.retired)

    def answered(self, work: Work) -> Timing:
        """A chunk of at most 10 ms; they do not overlap."""
        del self.asked[work.id]
        started = max(self.now - 0.01, self.lane_free_at)
        self.lane_free_at = self.now
        return Timing(started - 0.01, started, self.now)

    @precondition(lambda self: self.of(WorkKind.PARTIAL, WorkKind.FINAL))
    @rule(data=st.data(), text=st.sampled_from(TEXTS))
    def hears(self, data: st.DataObject, text: str) -> None:
        lack_s = data.draw(st.sampled_from([0.0, 0.05, 0.5]))
        self.hears_this(data.draw(st.sampled_from(self.of(WorkKind.PARTIAL, WorkKind.FINAL))), text, lack_s)

    def hears_this(self, work: Work, text: str, lack_s: float = 0.0) -> None:
        """All but the last `lack_s`."""
        upto = max(0, self.frame * FRAME - round(lack_s * 16_000))
        self.take(self.turns.on_transcript(work, text, "", upto, self.answered(work), self.now))

    @precondition(lambda self: self.of(WorkKind.SECOND_PASS))
    @rule(text=st.sampled_from(TEXTS), finished=st.booleans())
    def hears_again(self, text: str, finished: bool) -> None:
        work = self.of(WorkKind.SECOND_PASS)[0]
        self.answered(work)
        self.take(self.turns.on_reheard(work, text, finished))

    @precondition(lambda self: self.of(WorkKind.JUDGE))
    @rule(data=st.data(), score=st.sampled_from([0.0, 0.01, 0.5, 1.0]))
    def judges(self, data: st.DataObject, score: float) -> None:
        """Answers of older pauses and turns among them."""
        self.judges_this(data.draw(st.sampled_from(self.of(WorkKind.JUDGE))), score)

    def judges_this(self, work: Work, score: float) -> None:
        self.answered(work)
        self.take(self.turns.on_score(work, score, self.now))

    @precondition(lambda self: self.of(WorkKind.WARM, WorkKind.THINK))
    @rule(text=st.sampled_from(THOUGHTS), last=st.booleans())
    def thinks(self, text: str, last: bool) -> None:
        work = self.of(WorkKind.WARM, WorkKind.THINK)[0]
        self.take(self.turns.on_thought(work, text, last, self.answered(work), self.now))

    @precondition(lambda self: self.of(WorkKind.SPEAK))
    @rule(samples=st.sampled_from([0, 1, 150, 700, 5000]), last=st.booleans())
    def speaks(self, samples: int, last: bool) -> None:
        work = self.of(WorkKind.SPEAK)[0]
        self.take(self.turns.on_spoken(work, bytes(2 * samples), last, self.answered(work), self.now))

    @precondition(lambda self: self.asked)
    @rule(text=st.sampled_from(TEXTS[1:]), steps=st.integers(1, 12), seconds=st.sampled_from([0.0, 0.01, 0.03]))
    def works(self, text: str, steps: int, seconds: float) -> None:
        """The usual: what was asked for first is answered first, and has something to say."""
        for step in range(steps):
            if not self.asked:
                return
            self.time_passes(seconds)
            work = next(iter(self.asked.values()))
            if work.kind is WorkKind.SPEAK:
                self.speaks(samples=600, last=step % 2 == 0)
                if self.audible:
                    self.has_been_sent(1)
            elif work.kind is WorkKind.SECOND_PASS:
                self.hears_again(text, finished=step % 2 == 0)
            elif work.kind in (WorkKind.WARM, WorkKind.THINK):
                self.thinks(text=THOUGHTS[1 + step % 4], last=step % 4 == 3)
            elif work.kind is WorkKind.JUDGE:
                self.judges_this(work, step % 2 / 2)
            else:
                self.hears_this(work, text)

    @precondition(lambda self: any(not self.current(work) for work in self.asked.values()))
    @rule(data=st.data())
    def discards(self, data: st.DataObject) -> None:
        """Only what is stale or withdrawn is discarded while the session lives."""
        gone = [work for work in self.asked.values() if not self.current(work)]
        work = data.draw(st.sampled_from(gone))
        self.answered(work)
        self.take(self.turns.on_discarded(work))

    # --- the client

    @rule(what=st.sampled_from(["type", "create", "cancel", "commit", "line", "fail", "deaf"]), data=st.data())
    def trouble(self, what: str, data: st.DataObject) -> None:
        """The less usual, kept rare so that turns get somewhere."""
        match what:
            case "type":
                self.take(self.turns.on_text("Typed.", self.now))
            case "create":
                self.take(self.turns.on_create(self.now))
            case "cancel":
                self.take(self.turns.on_cancel(self.now))
            case "commit":
                self.take(self.turns.on_commit_asked(self.now))
            case "deaf":
                self.take(self.turns.on_deaf("engine_failed", self.now))
            case "line":
                self.take(self.turns.on_line(Line("user", "Hello there.")))
            case "fail" if self.asked:
                work = data.draw(st.sampled_from(list(self.asked.values())))
                self.answered(work)
                self.take(self.turns.on_engine_failed(work, "engine_failed", self.now))

    @rule(back=st.sampled_from([-1, 0, 0, 0, 1]), samples=st.integers(0, 8000))
    def reports(self, back: int, samples: int) -> None:
        self.take(self.turns.on_report(self.newest_epoch - back, samples, self.now))

    @precondition(lambda self: self.audible)
    @rule(back=st.integers(1, 3))
    def has_been_sent(self, back: int) -> None:
        """The socket takes sound after it was given out, maybe long after its reply has ended."""
        self.take(self.turns.on_sent(self.audible[-min(back, len(self.audible))], self.now))

    @precondition(lambda self: self.acknowledged)
    @rule(back=st.integers(1, 2))
    def acknowledgement_has_been_sent(self, back: int) -> None:
        """So does it an acknowledgement."""
        _, epoch = self.acknowledged[-min(back, len(self.acknowledged))]
        self.take(self.turns.on_acknowledged(epoch, self.now))

    # --- time

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.02, 0.1, 0.3, 1.0, 1.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        """The driver arms one timer, so none that is due is passed over."""
        until = self.now + seconds
        while (deadline := self.turns.next_deadline()) is not None and deadline <= until:
            self.fire(deadline)
        self.now = until

    @rule()
    def the_timer_is_early(self) -> None:
        deadline = self.turns.next_deadline()
        if deadline is None or deadline > self.now:
            before = self.turns.snapshot()
            self.take(self.turns.on_timer(self.now))
            assert self.turns.snapshot().epoch == before.epoch

    def fire(self, deadline: float) -> None:
        """A timer that is due always moves on: the next one is later."""
        self.now = max(self.now, deadline)
        given = len(self.acknowledged)
        self.take(self.turns.on_timer(self.now))
        if len(self.acknowledged) > given:  # a socket that is not busy takes it at once
            self.acknowledgement_has_been_sent(1)
        after = self.turns.next_deadline()
        assert after is None or after > self.now

    # --- what is checked

    def take(self, commands: list[TurnCommand]) -> None:
        for command in commands:
            match command:
                case Submit(work):
                    self.on_submit(work)
                case Withdraw(work):
                    self.withdrawn.add(work.id)
                case Retire(epoch, revision):
                    assert (epoch, revision) >= (self.retired[0], 0)
                    self.retired = max(self.retired, (epoch, revision))
                case Promote(epoch, _, kinds):
                    if kinds:  # ahead of the commit, under the epoch that it opens
                        assert self.open_epoch is None and epoch > self.newest_epoch
                    else:
                        assert epoch == self.open_epoch
                case SpeechStarted(turn):
                    assert turn == self.turn_now()
                    self.started = turn
                case FinalTranscript(turn, text):
                    assert text and turn not in self.ended
                case Committed(turn, epoch):
                    assert turn not in self.ended
                    assert epoch > self.newest_epoch, "an epoch is opened once"
                    assert self.open_epoch is None, "two replies at once"
                    self.open_epoch = self.newest_epoch = epoch
                    self.offset = self.content_from = 0
                    self.told_text = False
                case Corrected(turn, text):
                    assert text and turn <= self.turn_now()
                    assert any(line == Line("user", text) for line in self.turns.snapshot().history)
                case Acknowledged(turn, epoch, samples):
                    assert epoch == self.open_epoch == self.newest_epoch, "nothing before the commit"
                    assert turn == self.turn_now() and samples in [len(sound) // 2 for sound in SOUNDS]
                    assert self.offset == 0 and not self.told_text, "in front of all content"
                    assert not self.acknowledged or turn - self.acknowledged[-1][0] >= MASKS.one_in
                    assert self.settings.acknowledge.sounds
                    self.acknowledged.append((turn, epoch))
                    self.content_from = samples
                case Reopened(turn, epoch):
                    assert turn not in self.ended and epoch > self.newest_epoch
                    self.open_epoch, self.newest_epoch = None, epoch
                case ReplyText(_, epoch, text):
                    assert epoch == self.open_epoch and text
                    assert self.offset >= self.content_from, "text comes with its sound"
                    self.told_text = True
                case ReplyAudio(epoch, offset, pcm):
                    assert epoch == self.open_epoch == self.newest_epoch
                    assert offset == self.offset and pcm and len(pcm) % 2 == 0
                    front = self.offset < self.content_from
                    assert (pcm[:1] in (b"\x07", b"\x08")) is front, "what was told is what is heard"
                    self.offset += len(pcm) // 2
                    assert not front or self.offset <= self.content_from, "a frame is one or the other"
                    if not front and epoch not in self.audible:
                        self.audible.append(epoch)
                case ReplyDone(_, epoch, samples):
                    assert epoch == self.open_epoch and samples == self.offset > self.content_from
                case ReplyInterrupted(_, epoch, heard_ms):
                    assert epoch == self.open_epoch
                    assert 0 <= heard_ms <= 1000 * self.offset / RATE + 1
                    self.open_epoch = None
                case TurnFailed(turn):
                    assert turn not in self.ended
                case TurnEnded(record):
                    self.on_ended(record.turn, command)

    def turn_now(self) -> int:
        return self.turns.snapshot().turn

    def on_submit(self, work: Work) -> None:
        assert work.id not in self.ids, "a work is submitted once"
        assert work.session == "s"
        assert not is_stale(work, *self.retired), "what is already retired is not asked for"
        if work.kind is WorkKind.JUDGE:
            assert self.settings.turn_model and not self.settings.manual
            assert self.turns.snapshot().phase is Phase.HEARING
            assert not [other for other in self.of(WorkKind.JUDGE) if other.turn == work.turn], (
                "one question is out"
            )
        twins = [other for other in self.of(work.kind) if self.current(other)]
        if work.kind in (WorkKind.THINK, WorkKind.SPEAK, WorkKind.WARM, WorkKind.SECOND_PASS):
            assert not twins, "one step of a kind is outstanding"
        if work.kind is WorkKind.THINK:
            assert not [w for w in self.of(WorkKind.WARM) if self.current(w)]
        self.ids.add(work.id)
        self.asked[work.id] = work

    def on_ended(self, turn: int, command: TurnEnded) -> None:
        assert turn == len(self.ended) + 1, "verdicts come in order, one for each turn"
        self.ended.append(turn)
        self.open_epoch = None
        record = command.record
        total_s = sum(share.wait_s + share.service_s for share in record.stages.values())
        assert abs(total_s - _accounted_s(record)) < 1e-6
        assert all(share.wait_s > -1e-6 and share.service_s > -1e-6 for share in record.stages.values())
        late = record.verdict in (Verdict.MISSED, Verdict.MASKED, Verdict.REFUSED)
        assert (record.blame is not None) == (late and total_s > 0.0)
        assert (record.reason is not None) == (record.verdict in (Verdict.REFUSED, Verdict.FAILED))
        if record.verdict is Verdict.MASKED:
            assert "acknowledge" in record.rungs
        if "acknowledge" in record.rungs:
            assert turn in [number for number, _ in self.acknowledged]
        if record.verdict in (Verdict.MISSED, Verdict.MET) and self.settings.auto_reply:
            assert record.felt_estimate_s is not None
        if record.verdict in (Verdict.EMPTY, Verdict.INTERRUPTED):
            assert record.felt_estimate_s is None

    @invariant()
    def epoch_and_revision_never_fall(self) -> None:
        if hasattr(self, "turns"):
            snapshot = self.turns.snapshot()
            assert (snapshot.epoch, snapshot.revision) >= self.stamp
            self.stamp = (snapshot.epoch, snapshot.revision)
            assert snapshot.epoch >= self.newest_epoch
            assert len(snapshot.history) <= MAX_LINES
            for line in snapshot.history:
                if line.role == "assistant":
                    assert THOUGHT_WORDS.fullmatch(line.text), "a reply's line is what the model said"
            assert (snapshot.phase is Phase.ENDED) == (len(self.ended) == snapshot.turn)
            assert self.started <= snapshot.turn <= len(self.ended) + 1

    @invariant()
    def work_asked_for_is_for_the_present_epoch(self) -> None:
        if not hasattr(self, "turns"):
            return
        snapshot = self.turns.snapshot()
        coming = snapshot.epoch + (snapshot.phase is not Phase.COMMITTED)
        for work in self.of(WorkKind.THINK, WorkKind.SPEAK):
            if self.current(work) and snapshot.phase is not Phase.ENDED:
                assert work.epoch == coming and work.revision == snapshot.revision

    @invariant()
    def who_owes_something_has_a_bound(self) -> None:
        """With a result outstanding that the turn cannot do without, a timer is armed."""
        if hasattr(self, "turns") and self.turns.snapshot().phase is Phase.COMMITTED:
            deadline = self.turns.next_deadline()
            assert deadline is not None and deadline <= self.now + 60.0

    def teardown(self) -> None:
        """Let the user fall silent and the engines hang: the turn ends all the same. Then the client goes."""
        if not hasattr(self, "turns"):
            return
        self.sound(0.0, 150)
        if not self.settings.manual:
            for _ in range(2000):
                deadline = self.turns.next_deadline()
                if deadline is None:
                    break
                self.fire(deadline)
            assert self.turns.snapshot().phase is Phase.ENDED, "a turn without a verdict"
        self.take(self.turns.on_closed(self.now))
        assert self.ended == list(range(1, self.turn_now() + 1))
        assert self.turns.next_deadline() is None


def test_turns_keep_their_promises_in_every_order_of_events() -> None:
    """One verdict per turn, nothing heard before its commit or after its end, and never more than one step out."""
    run_state_machine_as_test(
        Conversation,
        settings=settings(
            max_examples=120,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Step.generate],  # making a failure small takes longer than a test may: it is told as found
            suppress_health_check=list(HealthCheck),
        ),
    )
