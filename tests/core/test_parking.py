"""Who may come back: a token is good once, for its owner, for so long; and what is kept is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from voicepipe.core.events import Line
from voicepipe.core.history import ENTRY_BYTES, Entry, Kept
from voicepipe.core.parking import OUTCOMES, InUse, Parked, Parking, ParkingSettings

ME, OTHER = "me", "other"


def kept(words: str = "Hello.", turn: int = 1) -> Kept:
    return Kept((Entry(Line("user", words), f"user-{turn}"),), turn, turn)


def lost(parking: Parking, session: str, now: float, said: Kept | None = None, owner: str = ME) -> str:
    """A session that has begun and lost its connection. Its token."""
    token = f"token of {session}"
    parking.on_began(session, owner, token)
    parking.on_lost(session, said or kept(), now)
    return token


def test_a_token_redeems_what_was_said_once() -> None:
    """And is worth nothing after that."""
    parking = Parking()
    token = lost(parking, "a", 10.0, kept("Hello.", 3))
    found = parking.on_resume(token, ME, 11.0)
    assert isinstance(found, Parked) and found.kept == kept("Hello.", 3)
    assert parking.on_resume(token, ME, 11.0) is None
    assert parking.snapshot().parked == parking.snapshot().n_bytes == 0
    assert parking.snapshot().outcomes["unknown"] == 1


def test_only_who_shows_the_same_credential_comes_back() -> None:
    """Another one finds nothing, and takes nothing from the owner."""
    parking = Parking()
    token = lost(parking, "a", 0.0)
    assert parking.on_resume(token, OTHER, 1.0) is None
    assert isinstance(parking.on_resume(token, ME, 1.0), Parked)
    parking.on_began("b", ME, "live")
    assert parking.on_resume("live", OTHER, 1.0) is None


def test_nothing_is_kept_for_longer_than_was_said() -> None:
    parking = Parking(ParkingSettings(keep_s=30.0))
    first, second = lost(parking, "a", 0.0), lost(parking, "b", 1.0)
    assert parking.next_deadline() == 30.0
    parking.on_timer(29.9)
    assert parking.snapshot().parked == 2
    parking.on_timer(30.0)
    assert parking.next_deadline() == 31.0 and parking.on_resume(first, ME, 30.0) is None
    assert parking.on_resume(second, ME, 31.0) is None, "asked for at its end, before any timer"
    assert parking.next_deadline() is None and parking.snapshot().outcomes["expired"] == 2


def test_a_token_of_a_session_that_has_its_connection_tells_which_one() -> None:
    """It does not expire with time, and is not used up by asking."""
    parking = Parking()
    parking.on_began("a", ME, "t")
    assert parking.on_resume("t", ME, 9_999.0) == parking.on_resume("t", ME, 9_999.0) == InUse("a")
    parking.on_lost("a", kept(), 9_999.0)
    assert isinstance(parking.on_resume("t", ME, 9_999.0), Parked)


def test_a_session_that_was_ended_leaves_nothing() -> None:
    parking = Parking()
    parking.on_began("a", ME, "t")
    parking.on_ended("a")
    parking.on_lost("a", kept(), 1.0)  # too late, and not known any more
    assert parking.on_resume("t", ME, 1.0) is None
    assert parking.snapshot().parked == parking.snapshot().live == 0


def test_what_could_not_be_used_is_put_back_and_expires_when_it_would_have() -> None:
    """In its place: what came later does not hide it."""
    parking = Parking()
    first = lost(parking, "a", 0.0)
    second = lost(parking, "b", 1.0)
    for token in (second, first):
        found = parking.on_resume(token, ME, 2.0)
        assert isinstance(found, Parked)
        parking.on_unused(found, 2.0)
    assert [parked.expires for parked in parking.parked] == [30.0, 31.0]
    parking.on_timer(30.5)
    assert [parked.expires for parked in parking.parked] == [31.0]
    assert parking.snapshot().outcomes["resumed"] == 0, "nobody has come back yet"


def test_a_conversation_counts_as_resumed_when_a_session_begins_with_it() -> None:
    parking = Parking()
    found = parking.on_resume(lost(parking, "a", 0.0), ME, 1.0)
    assert isinstance(found, Parked)
    parking.on_began("b", ME, "next", found)
    assert parking.snapshot().outcomes["resumed"] == 1


def test_with_one_too_many_the_oldest_goes() -> None:
    parking = Parking(ParkingSettings(most=2))
    tokens = [lost(parking, name, float(index)) for index, name in enumerate("abc")]
    assert parking.on_resume(tokens[0], ME, 3.0) is None
    assert isinstance(parking.on_resume(tokens[1], ME, 3.0), Parked)
    assert parking.snapshot().outcomes["displaced"] == 1


def test_with_too_many_bytes_the_oldest_goes() -> None:
    """Its memory is given back; a conversation that is too large by itself displaces nobody."""
    size = kept("x" * 1000).n_bytes
    parking = Parking(ParkingSettings(most_bytes=2 * size))
    tokens = [lost(parking, name, float(index), kept("x" * 1000)) for index, name in enumerate("abc")]
    assert parking.snapshot().n_bytes == 2 * size
    lost(parking, "d", 3.0, kept("x" * 9000))
    assert parking.snapshot().parked == 2 and parking.snapshot().outcomes["displaced"] == 2
    assert parking.on_resume(tokens[0], ME, 4.0) is None


def test_where_none_may_be_kept_none_is() -> None:
    parking = Parking(ParkingSettings(most=0))
    assert parking.on_resume(lost(parking, "a", 0.0), ME, 0.0) is None
    assert parking.next_deadline() is None


@given(st.text(max_size=300), st.text(max_size=64))
def test_the_size_of_what_is_kept_covers_its_text(text: str, name: str) -> None:
    """In whatever script."""
    size = Kept((Entry(Line("user", text), name),), 1, 1).n_bytes
    assert size >= ENTRY_BYTES + len(text.encode(errors="replace"))


def test_no_token_is_kept_anywhere() -> None:
    """Nor shown by whatever prints what is there."""
    parking = Parking()
    parking.on_began("a", ME, "s3cret-token")
    lost(parking, "b", 0.0)
    shown = f"{parking._live} {parking._parked} {parking.snapshot()}"
    assert "s3cret" not in shown and "token of b" not in shown


class Lot(RuleBasedStateMachine):
    """Against a list that is searched from the beginning."""

    KEEP_S = 30.0
    MOST = 3

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.parking = Parking(ParkingSettings(self.KEEP_S, self.MOST, most_bytes=5 * kept("x" * 500).n_bytes // 2))
        self.began = 0
        self.live: list[str] = []
        self.model: list[tuple[str, float, Kept]] = []
        self.redeemed: set[str] = set()

    def token(self, session: str) -> str:
        return f"token-{session}"

    @rule()
    def begin(self) -> None:
        self.began += 1
        session = f"s{self.began}"
        self.live.append(session)
        self.parking.on_began(session, ME, self.token(session))

    @rule(which=st.integers(0, 9), size=st.integers(0, 1500))
    def lose(self, which: int, size: int) -> None:
        if not self.live:
            return
        session = self.live.pop(which % len(self.live))
        said = kept("x" * size)
        self.parking.on_lost(session, said, self.now)
        most = self.parking._settings.most_bytes
        if said.n_bytes <= most:
            self.model.append((session, self.now + self.KEEP_S, said))
            while len(self.model) > self.MOST or sum(one.n_bytes for _, _, one in self.model) > most:
                self.model.pop(0)

    @rule(which=st.integers(0, 9))
    def end(self, which: int) -> None:
        if self.live:
            self.parking.on_ended(self.live.pop(which % len(self.live)))

    @rule(which=st.integers(1, 30), owner=st.sampled_from((ME, ME, OTHER)))
    def resume(self, which: int, owner: str) -> None:
        session = f"s{which}"
        found = self.parking.on_resume(self.token(session), owner, self.now)
        there = [one for one in self.model if one[0] == session]
        if owner == ME and there:
            assert isinstance(found, Parked) and found.kept == there[0][2]
            assert session not in self.redeemed
            self.redeemed.add(session)
            self.model.remove(there[0])
        elif owner == ME and session in self.live:
            assert found == InUse(session)
        else:
            assert found is None

    @rule(seconds=st.floats(0.0, 40.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.parking.on_timer(self.now)
        self.model = [one for one in self.model if one[1] > self.now]

    @invariant()
    def it_keeps_what_the_list_keeps_and_no_more_than_it_may(self) -> None:
        snapshot = self.parking.snapshot()
        assert [parked.expires for parked in self.parking.parked] == [expires for _, expires, _ in self.model]
        assert snapshot.n_bytes == sum(said.n_bytes for _, _, said in self.model)
        assert snapshot.parked <= self.MOST and snapshot.n_bytes <= self.parking._settings.most_bytes
        assert snapshot.live == len(self.live)
        assert self.parking.next_deadline() == (self.model[0][1] if self.model else None)
        assert set(snapshot.outcomes) == set(OUTCOMES)


TestLot = Lot.TestCase
