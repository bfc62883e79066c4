"""Audio from synthesised to heard: held, released in frames, never far ahead of the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voicepipe.core.playout import (
    AllHeard,
    AllSent,
    ClauseBegins,
    Frame,
    Playout,
    PlayoutCommand,
    PlayoutSettings,
)

RATE = 1000
"""One sample is a millisecond."""
SETTINGS = PlayoutSettings(RATE, frame_s=0.02, lead_s=0.1, report_grace_s=1.0)


def pcm(samples: int, value: int = 1) -> bytes:
    return bytes([value, 0]) * samples


def frames(commands: list[PlayoutCommand]) -> list[tuple[int, int]]:
    """(offset, samples) of each frame."""
    return [(c.offset, len(c.pcm) // 2) for c in commands if isinstance(c, Frame)]


def filled(samples: int, text: str = "One two three four.") -> Playout:
    """A playout that holds one clause, not released."""
    playout = Playout(SETTINGS)
    playout.on_clause(text)
    assert playout.on_audio(pcm(samples), 10.0) == []
    return playout


def test_a_clause_still_being_made_is_not_heard_to_its_end() -> None:
    """Playback has starved in the middle of it: how much is to come is not known, but something is."""
    playout = filled(100)
    playout.on_release(10.0)
    assert playout.heard_text(20.0) == "One two three"
    playout.on_last(20.0)
    assert playout.heard_text(20.0) == "One two three four."


def test_nothing_leaves_before_the_release() -> None:
    """Held audio sets no timer either."""
    playout = filled(500)
    assert playout.on_timer(1e9) == []
    assert playout.next_deadline() is None
    assert playout.snapshot().ready_samples == 500


def test_a_release_sends_at_once_as_much_as_may_lie_ahead() -> None:
    """The text first, then frames in a row: 100 ms of lead, and the frame that begins there."""
    commands = filled(500).on_release(20.0)
    assert commands[0] == ClauseBegins("One two three four.")
    assert frames(commands) == [(0, 20), (20, 20), (40, 20), (60, 20), (80, 20), (100, 20)]


def test_the_lead_is_kept() -> None:
    """Each further frame is sent when the audio before it lies no more than the lead ahead."""
    playout = filled(500)
    playout.on_release(20.0)
    assert playout.next_deadline() == pytest.approx(20.02)
    assert playout.on_timer(20.01) == []
    assert frames(playout.on_timer(20.0200001)) == [(120, 20)]


def test_audio_made_after_the_release_is_sent_at_once() -> None:
    """The clock starts with the first frame, whenever that is."""
    playout = Playout(SETTINGS)
    assert playout.on_release(5.0) == []
    assert playout.next_deadline() is None
    playout.on_clause("Hello.")
    assert playout.on_audio(pcm(15), 7.0) == [ClauseBegins("Hello."), Frame(0, pcm(15))]
    assert playout.snapshot().sent_samples == 15


def test_a_frame_does_not_cross_into_the_next_clause() -> None:
    """A clause's text is announced right before its first sample."""
    playout = Playout(SETTINGS)
    playout.on_clause("One.")
    playout.on_audio(pcm(30), 0.0)
    playout.on_clause("Two.")
    playout.on_audio(pcm(30, 2), 0.0)
    commands = playout.on_release(0.0) + playout.on_timer(0.5)
    assert commands == [
        ClauseBegins("One."),
        Frame(0, pcm(20)),
        Frame(20, pcm(10)),
        ClauseBegins("Two."),
        Frame(30, pcm(20, 2)),
        Frame(50, pcm(10, 2)),
    ]


def test_a_clause_without_a_sound_is_announced_with_the_next() -> None:
    """Its text is said, though nothing is to be heard of it."""
    playout = Playout(SETTINGS)
    playout.on_clause("*")
    assert playout.on_audio(b"", 0.0) == []
    playout.on_clause("Two.")
    playout.on_audio(pcm(10), 0.0)
    assert playout.on_release(0.0) == [ClauseBegins("*"), ClauseBegins("Two."), Frame(0, pcm(10))]


def test_the_end_is_told_once_when_all_is_sent_and_once_when_all_is_heard() -> None:
    """Sent at once, heard when the clock has reached the last sample."""
    playout = filled(40)
    playout.on_release(0.0)
    assert playout.on_last(0.01) == [AllSent(40)]
    assert playout.next_deadline() == pytest.approx(0.04)
    assert playout.on_timer(0.0399) == []
    assert playout.on_timer(0.04) == [AllHeard()]
    assert playout.on_timer(0.05) == []
    assert playout.next_deadline() is None
    assert playout.snapshot().finished


def test_a_reply_without_audio_ends_at_its_release() -> None:
    """Nothing to be sent is all sent and all heard."""
    playout = Playout(SETTINGS)
    assert playout.on_last(0.0) == []
    assert playout.on_release(1.0) == [AllSent(0), AllHeard()]
    assert playout.next_deadline() is None


def test_a_late_piece_sets_the_clock_back_and_counts_an_underrun() -> None:
    """What is heard later does not count as heard now."""
    playout = filled(20)
    playout.on_release(0.0)
    commands = playout.on_audio(pcm(20), 1.0)
    assert frames(commands) == [(20, 20)]
    assert playout.snapshot().underruns == 1
    assert playout.heard_samples(1.0) == 20
    assert playout.heard_samples(1.01) == 30


def test_a_piece_in_time_is_no_underrun() -> None:
    """The client still has something to play."""
    playout = filled(20)
    playout.on_release(0.0)
    playout.on_audio(pcm(20), 0.02)
    assert playout.snapshot().underruns == 0


def test_how_long_playback_has_stood_still() -> None:
    playout = filled(20)
    playout.on_release(0.0)
    playout.on_audio(pcm(20), 0.5)
    assert playout.stalled_s == pytest.approx(0.48)
    playout.on_audio(pcm(20), 0.51)  # in time
    playout.on_audio(pcm(20), 0.65)
    assert playout.stalled_s == pytest.approx(0.48 + 0.11)


def test_a_report_tells_when_the_content_began() -> None:
    playout = filled(100)
    playout.on_release(0.0)
    assert playout.begun_s(0) is None
    assert playout.begun_s(30) == pytest.approx(0.03)


def test_a_report_from_a_client_that_has_nothing_left_to_play_does_not() -> None:
    """It may have stood still for any time."""
    playout = filled(20)
    playout.on_release(0.0)
    assert playout.begun_s(20) is None and playout.begun_s(19) == pytest.approx(0.019)
    playout.on_last(0.02)
    assert playout.begun_s(20) == pytest.approx(0.02)  # that was all, and it says so when it has played it


def test_nor_does_one_after_playback_has_stood_still() -> None:
    playout = filled(20)
    playout.on_release(0.0)
    playout.on_audio(pcm(100), 1.0)
    assert playout.begun_s(30) is None


def test_what_a_client_reports_counts_more_than_the_estimate() -> None:
    """It may have started late; what it says is what was heard."""
    playout = filled(100)
    playout.on_release(0.0)
    playout.on_timer(0.1)
    playout.on_report(30, 0.1)
    assert playout.heard_samples(0.1) == 30
    assert playout.snapshot().reported


def test_a_report_of_zero_leaves_the_estimate() -> None:
    """A client that has reported nothing played yet may simply not have got round to it."""
    playout = filled(100)
    playout.on_release(0.0)
    playout.on_timer(0.05)
    playout.on_report(0, 0.05)
    assert playout.heard_samples(0.05) == 50


def test_a_report_beyond_what_was_sent_or_back_in_time_is_bounded() -> None:
    """A client cannot have heard what it was not sent, nor unhear."""
    playout = filled(500)
    playout.on_release(0.0)
    sent = playout.snapshot().sent_samples
    playout.on_report(10_000, 0.0)
    assert playout.heard_samples(0.0) == sent
    playout.on_report(3, 0.0)
    assert playout.heard_samples(0.0) == sent


def test_a_reporting_client_decides_when_all_is_heard() -> None:
    """The estimate waits for the report, and for no longer than the grace."""
    playout = filled(40)
    playout.on_release(0.0)
    playout.on_timer(0.03)
    playout.on_last(0.03)
    assert playout.on_report(20, 0.03) == []
    assert playout.on_timer(0.04) == []
    assert playout.next_deadline() == pytest.approx(1.04)
    assert playout.on_report(40, 0.3) == [AllHeard()]


def test_a_reporting_client_that_falls_silent_is_not_waited_for_for_ever() -> None:
    """After the grace the estimate holds."""
    playout = filled(40)
    playout.on_release(0.0)
    playout.on_timer(0.03)
    playout.on_last(0.03)
    playout.on_report(20, 0.03)
    deadline = playout.next_deadline()
    assert deadline is not None
    assert playout.on_timer(deadline) == [AllHeard()]


def test_heard_text_is_cut_to_the_share_of_the_words_that_was_heard() -> None:
    """Half of the samples are half of the words, rounded down: rather too little than too much."""
    playout = filled(100, "One two three four.")
    playout.on_release(0.0)
    playout.on_timer(10.0)
    playout.on_last(10.0)
    for heard, text in [(10, ""), (30, "One"), (60, "One two"), (99, "One two three")]:
        playout.on_report(heard, 10.0)
        assert playout.heard_text(10.0) == text
    playout.on_report(100, 10.0)
    assert playout.heard_text(10.0) == "One two three four."


def test_heard_text_counts_from_the_first_clause_on() -> None:
    """Whole clauses, and the part of the one that was being played."""
    playout = Playout(SETTINGS)
    for text in ("One two.", "Three four."):
        playout.on_clause(text)
        playout.on_audio(pcm(100), 0.0)
    playout.on_last(0.0)
    playout.on_release(0.0)
    playout.on_timer(10.0)
    playout.on_report(150, 10.0)
    assert playout.heard_text(10.0) == "One two. Three"
    assert playout.text() == "One two. Three four."


def test_a_clause_without_a_sound_is_heard_with_what_follows_it() -> None:
    """It lies at one point of the reply, and counts once that point has been passed."""
    playout = Playout(SETTINGS)
    playout.on_clause(":-)")
    playout.on_clause("Three four.")
    playout.on_audio(pcm(100), 0.0)
    playout.on_release(0.0)
    assert playout.heard_text(0.0) == ""
    assert playout.heard_text(0.06) == ":-) Three"


def test_nothing_sent_is_nothing_heard() -> None:
    """Neither samples nor words, however long it is ago."""
    playout = filled(100)
    assert playout.heard_samples(1e6) == 0
    assert playout.heard_text(1e6) == ""


def test_ahead_counts_from_the_estimated_playback() -> None:
    """All of it before the clock runs; less as it is played."""
    playout = filled(500)
    assert playout.ahead_s(99.0) == 0.5
    playout.on_release(100.0)
    assert playout.ahead_s(100.0625) == pytest.approx(0.438)


@pytest.mark.parametrize("bad", ["clause", "closed", "odd"])
def test_audio_out_of_place_is_a_bug(bad: str) -> None:
    """Before a clause, after the last, or half a sample."""
    playout = Playout(SETTINGS)
    if bad != "clause":
        playout.on_clause("One.")
    if bad == "closed":
        playout.on_last(0.0)
    with pytest.raises(AssertionError):
        playout.on_audio(b"\x00" if bad == "odd" else pcm(1), 0.0)


actions = st.lists(
    st.tuples(
        st.sampled_from(["audio", "clause", "release", "report", "timer", "due", "last"]),
        st.integers(0, 300),
        st.sampled_from([0.0, 0.001, 0.0199, 0.02, 0.1, 0.7]),
    ),
    max_size=60,
)


# an acknowledgement in front


def acknowledged(samples: int = 60) -> Playout:
    """Released at 10.0 without content; the sound is given out then."""
    playout = Playout(SETTINGS)
    playout.on_release(10.0)
    playout.on_acknowledgement(pcm(samples, 7), 10.0)
    return playout


def test_an_acknowledgement_is_given_out_like_any_sound() -> None:
    """In frames, with no more ahead than may lie ahead; and it is no content."""
    playout = Playout(SETTINGS)
    playout.on_release(10.0)
    assert frames(playout.on_acknowledgement(pcm(250), 10.0)) == [(at, 20) for at in range(0, 120, 20)]
    assert playout.next_deadline() == pytest.approx(10.02)
    assert playout.acknowledged and not playout.has_content
    assert not Playout(SETTINGS).acknowledged


def test_content_in_time_follows_an_acknowledgement_without_a_gap() -> None:
    """Announced when its first frame goes out; no frame holds both."""
    playout = acknowledged(50)
    assert playout.until_content_s(10.02) == pytest.approx(0.03)
    playout.on_clause("One.")
    commands = playout.on_audio(pcm(30), 10.02)
    assert commands == [ClauseBegins("One."), Frame(50, pcm(20)), Frame(70, pcm(10))]
    assert playout.has_content and playout.snapshot().underruns == 0


def test_content_behind_a_long_acknowledgement_waits_for_it() -> None:
    """Given out when the sound before it has been."""
    playout = acknowledged(250)
    playout.on_clause("One.")
    assert frames(playout.on_audio(pcm(20), 10.0)) == []
    assert frames(playout.on_timer(10.14)) == [*((at, 20) for at in range(120, 240, 20)), (240, 10)]
    assert playout.on_timer(10.15) == [ClauseBegins("One."), Frame(250, pcm(20))]


def test_a_pause_between_acknowledgement_and_content_is_no_underrun() -> None:
    """Nobody had begun to say anything; the clock is set back all the same."""
    playout = acknowledged(60)
    playout.on_clause("One.")
    playout.on_audio(pcm(40), 10.5)
    assert playout.snapshot().underruns == 0
    assert playout.until_content_s(10.5) == pytest.approx(0.0)
    assert playout.heard_samples(10.52) == 80
    playout.on_audio(pcm(40), 11.0)
    assert playout.snapshot().underruns == 1


def test_an_acknowledgement_is_never_heard_words() -> None:
    """Neither by the estimate nor by reports; what is heard of the content counts from its beginning."""
    playout = acknowledged(60)
    assert playout.heard_text(10.06) == ""
    playout.on_clause("One two three four.")
    playout.on_audio(pcm(40), 10.0)
    playout.on_last(10.0)
    playout.on_report(60, 10.06)
    assert (playout.heard_samples(10.06), playout.heard_text(10.06)) == (60, "")
    playout.on_report(80, 10.08)
    assert playout.heard_text(10.08) == "One two"


def test_clauses_whose_audio_is_being_made_come_behind_an_acknowledgement() -> None:
    """They had been asked for when the deadline came, one of them without a sound: neither is told, or taken for
    heard, with the sound in front of them."""
    playout = Playout(SETTINGS)
    playout.on_release(10.0)
    playout.on_clause("...")
    playout.on_audio(b"", 10.0)
    playout.on_clause("One two three four.")
    assert playout.on_acknowledgement(pcm(30, 7), 10.0) == [Frame(0, pcm(20, 7)), Frame(20, pcm(10, 7))]
    assert playout.heard_text(10.03) == ""
    assert playout.on_audio(pcm(20), 10.03) == [
        ClauseBegins("..."),
        ClauseBegins("One two three four."),
        Frame(30, pcm(20)),
    ]
    playout.on_last(10.03)
    playout.on_report(40, 10.04)
    assert playout.heard_text(10.04) == "... One two"


def test_a_reply_with_nothing_but_an_acknowledgement_has_nothing_sent() -> None:
    """Its end is told without content, once the sound has been heard."""
    playout = acknowledged(60)
    assert playout.on_last(10.01) == [AllSent(0)]
    assert playout.on_timer(10.06) == [AllHeard()]


def test_an_acknowledgement_counts_in_the_length_of_a_reply() -> None:
    """Positions are positions."""
    playout = acknowledged(60)
    playout.on_clause("One.")
    playout.on_audio(pcm(40), 10.0)
    assert AllSent(100) in playout.on_last(10.0)


def test_an_acknowledgement_after_content_is_a_bug() -> None:
    """There is nothing left to mask."""
    playout = filled(20)
    playout.on_release(10.0)
    with pytest.raises(AssertionError):
        playout.on_acknowledgement(pcm(20), 10.0)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(actions, st.sampled_from([1000, 16_000, 22_050, 24_000]))
def test_frames_are_whole_in_order_and_never_far_ahead(steps: list[tuple[str, int, float]], rate_hz: int) -> None:
    """Every byte once, no gap, at most the lead and one frame ahead of the clock, and never stuck."""
    playout = Playout(replace(SETTINGS, rate_hz=rate_hz))
    playout.on_clause("Zero.")
    now, fed, got, closed, heard = 100.0, b"", b"", False, 0
    first_at: float | None = None

    def take(commands: list[PlayoutCommand]) -> None:
        nonlocal got, first_at, heard
        for command in commands:
            if isinstance(command, Frame):
                assert command.offset * 2 == len(got)
                assert 0 < len(command.pcm) <= 2 * max(1, round(0.02 * rate_hz))
                first_at = now if first_at is None else first_at
                # No frame begins further ahead of the (earliest possible) clock than the lead.
                assert command.offset / rate_hz <= now - first_at + SETTINGS.lead_s + 1e-6
                got += command.pcm
            heard += isinstance(command, AllHeard)

    for action, amount, wait_s in steps:
        now += wait_s
        if action == "due":
            now = max(now, playout.next_deadline() or now)
            before = playout.next_deadline()
            take(playout.on_timer(now))
            after = playout.next_deadline()
            assert before is None or before > now or after is None or after > before
        elif action == "timer":
            take(playout.on_timer(now))
        elif action == "release":
            take(playout.on_release(now))
        elif action == "report":
            take(playout.on_report(amount, now))
        elif action == "last":
            closed = True
            take(playout.on_last(now))
        elif action == "clause" and not closed:
            playout.on_clause(f"Clause {amount}.")
        elif action == "audio" and not closed:
            data = bytes([amount % 251, 0]) * amount
            fed += data
            take(playout.on_audio(data, now))
        assert fed.startswith(got)
        assert playout.heard_samples(now) * 2 <= len(got)
    take(playout.on_release(now))
    take(playout.on_last(now))
    for _ in range(10_000):
        deadline = playout.next_deadline()
        if deadline is None:
            break
        now = max(now, deadline)
        take(playout.on_timer(now))
    assert (got, heard) == (fed, 1)


def test_any_position_has_its_words() -> None:
    """Whatever was reported, or played by the clock."""
    playout = Playout(PlayoutSettings(1000, frame_s=0.1))
    for text in ("One two.", "Three four."):
        playout.on_clause(text)
        playout.on_audio(b"\x01\x00" * 1000, 0.0)
    playout.on_last(0.0)
    assert playout.ready_samples == 2000
    said = {heard: playout.text_until(heard) for heard in (0, 499, 500, 1000, 1500, 9000)}
    assert said == {
        0: "",
        499: "",
        500: "One",
        1000: "One two.",
        1500: "One two. Three",
        9000: "One two. Three four.",
    }
