"""What is numbered in one session: turns, epochs, revisions, work.

The epoch tells the replies of commits apart, the revision the replies that were made ahead of one commit. Both only
rise, so that what belongs to an older pair can be told from what is wanted, wherever it is met.
"""

from __future__ import annotations

from collections.abc import Iterator

from voicepipe.core.events import Promote, Retire, Work, WorkClass, WorkKind


class Numbering:
    def __init__(self, session: str, serial: Iterator[int]) -> None:
        """`serial` issues work ids; others may draw from it too."""
        self.session = session
        self.serial = serial
        self._turn = 0
        self._epoch = 0
        self._revision = 0

    @property
    def turn(self) -> int:
        """The newest one; 0 before the first."""
        return self._turn

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def revision(self) -> int:
        return self._revision

    def restore(self, turn: int, epoch: int) -> None:
        """Go on behind these: what belongs to that epoch is out of date."""
        self._turn, self._epoch = turn, epoch + 1

    def begin_turn(self) -> int:
        self._turn += 1
        return self._turn

    def begin_epoch(self) -> int:
        """Something was committed, or a commit taken back."""
        self._epoch += 1
        return self._epoch

    def retire(self) -> Retire:
        """Nothing more of the present epoch is wanted."""
        return Retire(self.begin_epoch(), 0)

    def retire_ahead(self) -> Retire:
        """Nothing more of what was made ahead of the next commit is wanted."""
        self._revision += 1
        return Retire(self._epoch + 1, self._revision)

    def retire_reply(self) -> Retire:
        """The present epoch's reply is made anew."""
        self._revision += 1
        return Retire(self._epoch, self._revision)

    def promote_ahead(self, deadline: float | None, *kinds: WorkKind) -> Promote:
        """What the next commit would release, and all that leads to it, is waited for by now."""
        return Promote(self._epoch + 1, deadline, kinds)

    def work(self, turn: int, kind: WorkKind, klass: WorkClass, deadline: float | None = None) -> Work:
        """A chunk for what the next commit would release."""
        return Work(
            id=next(self.serial),
            session=self.session,
            turn=turn,
            epoch=self._epoch + 1,
            revision=self._revision,
            kind=kind,
            klass=klass,
            deadline=deadline,
        )
