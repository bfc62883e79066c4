"""Sessions that may be resumed: what `core.parking` decides, with a clock, a timer and chance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from secrets import token_urlsafe

from voicepipe.core.history import Kept
from voicepipe.core.parking import InUse, Parked, Parking, ParkingSettings, ParkingSnapshot
from voicepipe.errors import ResumeUnknown

TOKEN_BYTES = 16
LEAVE_S = 2.0
"""How long a session may take to leave a connection that its client has given up."""


def owner_of(credential: str | None) -> str:
    """Whose a conversation is: whoever shows the same credential. Not the credential itself."""
    return sha256((credential or "").encode(errors="surrogatepass")).hexdigest()


class Seat:
    """Of one session that may be resumed, from its beginning to its end."""

    def __init__(self, resumption: Resumption, session: str, token: str, parked: Parked | None) -> None:
        self.token = token
        self.kept = None if parked is None else parked.kept
        """What the session goes on with."""
        self.moved = asyncio.Event()
        """Its client has come back by another connection: the session has to leave this one."""
        self.left = asyncio.Event()
        self._resumption = resumption
        self._session = session

    def leave(self, kept: Kept | None) -> None:
        """The session is over; None: for good. Once."""
        self._resumption._on_left(self._session, kept)
        self.left.set()


class Resumption:
    """Of one server. A parked conversation holds no lease, no engine and no task: it is text."""

    def __init__(
        self,
        settings: ParkingSettings | None = None,
        make_token: Callable[[], str] = lambda: token_urlsafe(TOKEN_BYTES),
    ) -> None:
        self.keep_s = (settings or ParkingSettings()).keep_s
        self._parking = Parking(settings)
        self._make_token = make_token
        self._seats: dict[str, Seat] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, session: str, owner: str, parked: Parked | None = None) -> Seat:
        """`session` is unique in the process; it goes on with `parked`, which was redeemed for it."""
        seat = self._seats[session] = Seat(self, session, self._make_token(), parked)
        self._parking.on_began(session, owner, seat.token, parked)
        return seat

    async def redeem(self, token: str, owner: str) -> Parked:
        """What was kept under that token, once. Where the session still has its connection, which may be dead
        without its server knowing, it leaves it first, in `LEAVE_S` at most. Raises ResumeUnknown. Cancelling it
        takes nothing out."""
        found = self._parking.on_resume(token, owner, self._now())
        if isinstance(found, InUse):
            seat = self._seats[found.session]
            seat.moved.set()
            try:
                async with asyncio.timeout(LEAVE_S):
                    await seat.left.wait()
            except TimeoutError:
                raise ResumeUnknown("the session does not leave its other connection", field="resume") from None
            found = self._parking.on_resume(token, owner, self._now())
        self._arm()
        if isinstance(found, Parked):
            return found
        raise ResumeUnknown(
            f"nothing is kept under this token: it is wrong, was used, or is older than {self.keep_s:g} s; "
            "send session.start without it",
            field="resume",
        )

    def give_back(self, parked: Parked) -> None:
        """No session could be made with it."""
        self._parking.on_unused(parked, self._now())
        self._arm()

    def snapshot(self) -> ParkingSnapshot:
        return self._parking.snapshot()

    def close(self) -> None:
        """The server ends: nothing is kept."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _on_left(self, session: str, kept: Kept | None) -> None:
        del self._seats[session]
        if kept is None:
            self._parking.on_ended(session)
        else:
            self._parking.on_lost(session, kept, self._now())
        self._arm()

    def _arm(self) -> None:
        """What nobody has come back for is forgotten in time, also where nothing else happens."""
        deadline = self._parking.next_deadline()
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if deadline is None else loop.call_at(deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._parking.on_timer(self._now())
        self._arm()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
