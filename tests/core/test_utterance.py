"""Which decodes are asked for, and when an utterance is over."""

from __future__ import annotations

from itertools import count

import pytest

from voicepipe.core.events import (
    Lull,
    Submit,
    Withdraw,
    Work,
    WorkClass,
    WorkKind,
)
from voicepipe.core.patience import OPERATING_POINTS
from voicepipe.core.utterance import Ahead, DecodeSettings, Final, Partial, Speaking, Utterance

FAST = OPERATING_POINTS["fast"]
S = 16_000
"""Samples of a second."""


def utterance(start: int = 0) -> Utterance:
    serial = count(1)

    def make(kind: WorkKind, klass: WorkClass) -> Work:
        return Work(next(serial), "s", 1, 1, 0, kind, klass)

    return Utterance(start, make, DecodeSettings())


def partial(ident: int) -> Work:
    return Work(ident, "s", 1, 1, 0, WorkKind.PARTIAL, WorkClass.ASR)


def ahead(ident: int) -> Work:
    return Work(ident, "s", 1, 1, 0, WorkKind.FINAL, WorkClass.ASR)


def final(ident: int) -> Work:
    return Work(ident, "s", 1, 1, 0, WorkKind.FINAL, WorkClass.STARTED)


def test_the_first_partial_waits_for_half_a_second_of_speech() -> None:
    """Less decodes to noise."""
    one = utterance()
    assert one.on_voiced(7_999, 7_999, 0.0) == []
    assert one.on_voiced(8_000, 8_000, 0.0) == [Submit(partial(1))]


def test_pre_roll_is_no_speech() -> None:
    """It is the speech that counts, not the length of the window."""
    one = utterance(start=0)
    assert one.on_voiced(samples=4_000, at=10_400, step_s=0.0) == []


def test_one_partial_is_in_flight() -> None:
    """The next one is asked for when this one is back and the hop has passed."""
    one = utterance()
    one.on_voiced(S, S, 0.0)
    assert one.on_voiced(2 * S, 2 * S, 0.0) == []
    one.on_transcript(partial(1), "a", "b", 0)
    assert one.on_voiced(2 * S, 2 * S, 0.0) == [Submit(partial(2))]


@pytest.mark.parametrize(
    ("step_s", "hop_samples"), [(0.0, 2_048), (0.05, 2_048), (0.25, 6_000), (0.5, 12_000), (9.0, 15_360)]
)
def test_the_hop_follows_what_a_step_takes(step_s: float, hop_samples: int) -> None:
    """1.5 steps, between 128 and 960 ms: recognition never takes the whole device."""
    one = utterance()
    one.on_voiced(S, S, step_s)
    one.on_transcript(partial(1), "a", "", 0)
    assert one.on_voiced(S + hop_samples - 1, S + hop_samples - 1, step_s) == []
    assert one.on_voiced(S + hop_samples, S + hop_samples, step_s) == [Submit(partial(2))]


def test_a_pause_asks_for_a_final() -> None:
    """At once, in the class of started turns."""
    one = utterance()
    assert one.on_pause() == [Submit(final(1))]
    assert one.state is Speaking.PAUSE
    assert one.awaiting_final


def test_a_pause_takes_a_waiting_partial_back() -> None:
    """The final hears all that it would have heard."""
    one = utterance()
    one.on_voiced(S, S, 0.0)
    assert one.on_pause() == [Withdraw(partial(1)), Submit(final(2))]


def test_the_final_is_the_text() -> None:
    """Stable and tentative joined; the decode is not awaited any more."""
    one = utterance()
    one.on_pause()
    assert one.on_transcript(final(1), "hello", "there", 0) == Final("hello there")
    assert one.text == "hello there"
    assert not one.awaiting_final


@pytest.mark.parametrize(("stable", "tentative"), [("", ""), (" ", " ")])
def test_a_final_without_words_is_the_empty_text(stable: str, tentative: str) -> None:
    """Known to be empty, which is not the same as not known."""
    one = utterance()
    one.on_pause()
    one.on_transcript(final(1), stable, tentative, 0)
    assert one.text == ""


def test_a_partial_is_told_once() -> None:
    """A repetition tells nobody anything."""
    one = utterance()
    one.on_voiced(S, S, 0.0)
    assert one.on_transcript(partial(1), "what", "is", 0) == Partial("what", "is")
    one.on_voiced(2 * S, 2 * S, 0.0)
    assert one.on_transcript(partial(2), "what", "is", 0) is None


def test_an_empty_first_partial_is_not_told() -> None:
    """Nothing is shown, and nothing is what it says."""
    one = utterance()
    one.on_voiced(S, S, 0.0)
    assert one.on_transcript(partial(1), "", "", 0) is None


def test_a_partial_that_comes_in_the_pause_is_out_of_date() -> None:
    """The final has been asked for."""
    one = utterance()
    one.on_voiced(S, S, 0.0)
    one.on_pause()
    assert one.on_transcript(partial(1), "late", "", 0) is None
    assert one.text is None


def test_a_final_of_a_pause_that_was_none_is_only_shown() -> None:
    """Speech went on: the final of the next pause counts, in whatever order they come."""
    one = utterance()
    one.on_pause()
    one.on_resumed()
    assert one.on_transcript(final(1), "half", "", 0) == Ahead("half")
    assert one.text is None
    assert one.on_pause() == [Submit(final(2))]
    assert one.on_transcript(final(1), "half", "", 0) is None
    assert one.text is None
    assert one.on_transcript(final(2), "half and whole", "", 0) == Final("half and whole")


def lull(at_s: float) -> Lull:
    """The sound has been gone for 20 ms."""
    return Lull(round(at_s * S), round((at_s + 0.02) * S))


def test_a_lull_asks_for_a_decode_of_all() -> None:
    """While the detector still says speech, and instead of a partial that may be waiting."""
    one = utterance()
    one.on_voiced(S, S, 0.0)
    assert one.on_lull(lull(1.5), 0.0) == [Withdraw(partial(1)), Submit(ahead(2))]
    assert one.state is Speaking.SPEECH and not one.awaiting_final


def test_a_lull_soon_after_a_decode_is_not_worth_another() -> None:
    """Half a step's worth of new sound is asked for."""
    one = utterance()
    one.on_voiced(S // 4, S // 4, 0.0)
    one.on_lull(lull(0.5), 0.2)
    one.on_transcript(ahead(1), "so", "", round(0.52 * S))
    one.on_swell()
    assert one.on_lull(lull(0.59), 0.2) == []
    one.on_swell()
    assert one.on_lull(lull(0.61), 0.2) == [Submit(ahead(2))]


def test_a_lull_after_hardly_any_speech_is_a_click() -> None:
    one = utterance()
    one.on_voiced(S // 8, S // 8, 0.0)
    assert one.on_lull(lull(0.2), 0.0) == []


def test_a_decode_that_heard_all_is_the_final() -> None:
    """Running when the pause is noticed: nothing more is asked for."""
    one = utterance()
    one.on_voiced(S // 4, S // 4, 0.0)
    one.on_lull(lull(1.0), 0.0)
    assert one.on_pause(round(1.06 * S)) == []
    assert one.awaiting_final
    assert one.on_transcript(ahead(1), "hello", "there", round(1.02 * S)) == Final("hello there")


def test_a_decode_that_heard_all_and_is_back_is_the_final_at_once() -> None:
    one = utterance()
    one.on_voiced(S // 4, S // 4, 0.0)
    one.on_lull(lull(1.0), 0.0)
    assert one.on_transcript(ahead(1), "hello there", "", round(1.02 * S)) == Ahead("hello there")
    assert one.on_pause(round(1.06 * S)) == []
    assert one.text == "hello there" and not one.awaiting_final


@pytest.mark.parametrize(
    "case",
    ["sound came after it", "the detector heard speech for longer", "it heard nothing", "it was not believed"],
)
def test_a_decode_that_did_not_hear_all_is_not_the_final(case: str) -> None:
    one = utterance()
    one.on_voiced(S // 4, S // 4, 0.0)
    one.on_lull(lull(1.0), 0.0)
    upto = 0 if case == "it was not believed" else round(1.02 * S)
    heard = one.on_transcript(ahead(1), "" if case == "it heard nothing" else "hello", "", upto)
    assert (heard is None) == (case == "it heard nothing")
    if case == "sound came after it":
        one.on_swell()
    at_s = 1.2 if case == "the detector heard speech for longer" else 1.06
    assert one.on_pause(round(at_s * S)) == [Submit(final(2))]
    assert one.text is None and one.awaiting_final


ENOUGH = round(0.95 * S)
"""50 ms before a lull at 1.0 s: all but the end of the last sound."""


def test_a_partial_that_heard_all_is_the_final() -> None:
    """Back before the lull: no other decode is asked for."""
    one = utterance()
    one.on_voiced(S, ENOUGH, 0.0)
    assert one.on_transcript(partial(1), "Hello", "there.", ENOUGH) == Partial("Hello", "there.")
    assert one.on_lull(lull(1.0), 0.0) == Ahead("Hello there.")
    assert one.on_pause(round(1.06 * S)) == []
    assert one.text == "Hello there." and not one.awaiting_final


def test_a_partial_under_way_at_the_lull_may_turn_out_to_have_heard_all() -> None:
    """The full decode that waits behind it is taken back."""
    one = utterance()
    one.on_voiced(S, ENOUGH, 0.0)
    assert one.on_lull(lull(1.0), 0.0) == [Withdraw(partial(1)), Submit(ahead(2))]
    assert one.on_transcript(partial(1), "Hello", "there.", ENOUGH) == Ahead("Hello there.", (ahead(2),))
    assert one.on_pause(round(1.06 * S)) == [Withdraw(ahead(2))]
    assert one.text == "Hello there." and not one.awaiting_final


def test_a_partial_under_way_in_the_pause_may_turn_out_to_have_heard_all() -> None:
    one = utterance()
    one.on_voiced(S, ENOUGH, 0.0)
    one.on_lull(lull(1.0), 0.0)
    assert one.on_pause(round(1.06 * S)) == [] and one.awaiting_final
    assert one.on_transcript(partial(1), "Hello", "there.", ENOUGH) == Final("Hello there.", (ahead(2),))
    assert one.text == "Hello there." and not one.awaiting_final
    assert one.on_transcript(ahead(2), "Hello there!", "", 2 * S) is None
    assert one.text == "Hello there."


@pytest.mark.parametrize(
    ("text", "upto_s"),
    [("Hello there.", 0.93), ("Hello there.", 0.0), ("Hello there and", 0.95), ("Hello there", 0.95), ("", 0.95)],
)
def test_a_partial_that_may_lack_something_is_not_the_final(text: str, upto_s: float) -> None:
    """Too early, not believed, or in words that ask for more: there is time to hear those in full."""
    one = utterance()
    one.on_voiced(S, ENOUGH, 0.0)
    one.on_lull(lull(1.0), 0.0)
    assert not isinstance(one.on_transcript(partial(1), text, "", round(upto_s * S)), Ahead | Final)
    assert one.on_pause(round(1.06 * S)) == [] and one.awaiting_final


def test_a_partial_is_not_the_final_where_the_detector_heard_speech_for_longer() -> None:
    """The level fell, and yet there were 200 ms of something."""
    one = utterance()
    one.on_voiced(S, ENOUGH, 0.0)
    one.on_transcript(partial(1), "Hello there.", "", ENOUGH)
    one.on_lull(lull(1.0), 0.0)
    assert one.on_pause(round(1.2 * S)) == [Submit(final(2))]


def test_two_full_decodes_are_in_flight_at_most() -> None:
    """A second lull takes the first one's decode back if it waits; a third finds both places taken."""
    one = utterance()
    one.on_voiced(S // 4, S // 4, 0.0)
    assert one.on_lull(lull(0.5), 0.0) == [Submit(ahead(1))]
    assert one.on_lull(lull(1.0), 0.0) == [Withdraw(ahead(1)), Submit(ahead(2))]
    assert one.on_lull(lull(1.5), 0.0) == []
    one.on_lost(ahead(1))
    assert one.on_lull(lull(2.0), 0.0) == [Withdraw(ahead(2)), Submit(ahead(3))]


def test_stable_words_stay_as_they_were_told() -> None:
    """A later decode that hears them differently changes what is tentative only."""
    one = utterance()
    assert one.show("we had", "nothing") == Partial("we had", "nothing")
    assert one.show("", "we add nothing before") == Partial("we had", "nothing before")
    assert one.show("we had nothing", "before us") == Partial("we had nothing", "before us")


def test_a_final_told_twice_counts_once() -> None:
    """The second is a repetition, whatever it says."""
    one = utterance()
    one.on_pause()
    one.on_transcript(final(1), "one", "", 0)
    assert one.on_transcript(final(1), "two", "", 0) is None
    assert one.text == "one"


def test_speech_adds_up_over_pauses() -> None:
    """Each stretch counts from its own beginning; the sum is what the recogniser is told."""
    one = utterance()
    one.on_voiced(5_000, 5_000, 0.0)
    one.on_pause()
    one.on_resumed()
    assert one.speech_samples == 5_000
    one.on_voiced(600, 9_000, 0.0)
    one.on_voiced(1_100, 9_500, 0.0)
    assert one.speech_samples == 6_100


def test_losing_the_final_is_a_loss_and_losing_a_partial_is_none() -> None:
    """The next partial, or the final, will do."""
    one = utterance()
    one.on_voiced(S, S, 0.0)
    assert not one.on_lost(partial(1))
    assert one.on_voiced(2 * S, 2 * S, 0.0) == [Submit(partial(2))]
    one.on_pause()
    assert one.on_lost(final(3))


def test_losing_a_final_that_no_longer_counts_is_none() -> None:
    """The user had gone on speaking."""
    one = utterance()
    one.on_pause()
    one.on_resumed()
    assert not one.on_lost(final(1))


def test_an_utterance_is_over_when_text_and_silence_are_there() -> None:
    """Neither alone; whichever comes last decides."""
    one = utterance()
    one.on_pause()
    one.on_silence(0.2, None)
    assert not one.is_over(FAST)
    one.on_transcript(final(1), "Turn on the light.", "", 0)
    assert one.is_over(FAST)
    other = utterance()
    other.on_pause()
    other.on_transcript(final(1), "Turn on the light.", "", 0)
    other.on_silence(0.064, None)
    assert not other.is_over(FAST)
    other.on_silence(0.096, None)
    assert other.is_over(FAST)


@pytest.mark.parametrize(("point", "needed_s"), [("fast", 0.64), ("balanced", 0.64), ("safe", 1.44)])
def test_a_pause_after_nothing_intelligible_is_short(point: str, needed_s: float) -> None:
    """Humming ends within a second at every operating point."""
    one = utterance()
    one.on_pause()
    one.on_transcript(final(1), "", "", 0)
    one.on_silence(needed_s - 0.032, None)
    assert not one.is_over(OPERATING_POINTS[point])
    one.on_silence(needed_s, None)
    assert one.is_over(OPERATING_POINTS[point])


def test_a_pause_begins_without_any_silence() -> None:
    """The text may be there before the first silence is told: that alone ends nothing."""
    one = utterance()
    one.on_pause()
    one.on_transcript(final(1), "Turn on the light.", "", 0)
    assert not one.is_over(FAST)


def test_a_score_once_told_holds_for_the_pause() -> None:
    """Later silences without a score do not take it back."""
    one = utterance()
    one.on_pause()
    one.on_transcript(final(1), "Turn on the light.", "", 0)
    one.on_silence(0.064, 0.01)
    one.on_silence(0.096, None)
    assert not one.is_over(FAST)
    one.on_silence(FAST.open_s, None)
    assert one.is_over(FAST)


def test_a_new_pause_begins_with_nothing_known() -> None:
    """Neither text nor silence nor score of the one before."""
    one = utterance()
    one.on_pause()
    one.on_transcript(final(1), "Done.", "", 0)
    one.on_silence(2.0, 1.0)
    one.on_resumed()
    assert not one.is_over(FAST)
    one.on_pause()
    one.on_transcript(final(2), "Done", "", 0)
    assert not one.is_over(FAST)
    one.on_silence(0.5, None)
    assert not one.is_over(FAST)


def test_a_demand_ends_it_whatever_the_silence() -> None:
    """As soon as the text is known; also where only a demand can."""
    one = utterance()
    one.commit_asked = True
    one.on_pause()
    assert not one.is_over(None)
    one.on_transcript(final(1), "and", "", 0)
    assert one.is_over(None)


def test_without_patience_silence_never_ends_it() -> None:
    """Manual turn-taking."""
    one = utterance()
    one.on_pause()
    one.on_transcript(final(1), "Done.", "", 0)
    one.on_silence(60.0, 1.0)
    assert not one.is_over(None)
