"""The sequences that an engine continues, each by one token in every step: how many steps until something happens
to one of them, and how many blocks of memory they take until then, without looking at each."""

from __future__ import annotations

from heapq import heappop, heappush

from voicepipe.sim.gpu import BLOCK_TOKENS
from voicepipe.sim.requests import Request


class Sequence:
    """A request that has begun. While it is being continued its lengths are counted in `Decoding`, and stand here
    as of the moment when it came in or went out."""

    __slots__ = ("goal_step", "joined_step", "private_tokens", "prompt_left", "request", "tokens_left")

    def __init__(self, request: Request, private_tokens: int, tokens_left: int, prompt_left: int) -> None:
        self.request = request
        self.private_tokens = private_tokens
        """In memory, without the shared prefix."""
        self.tokens_left = tokens_left
        """To be produced."""
        self.prompt_left = prompt_left
        """To be computed before the next token."""
        self.joined_step = -1
        self.goal_step = -1


class Decoding:
    def __init__(self) -> None:
        self.count = 0
        self.context_tokens = 0
        """Sum of their contexts, prefixes included."""
        self._steps = 0
        """Taken since the beginning."""
        self._residues = [0] * BLOCK_TOKENS
        """How many sequences have private tokens minus steps, modulo a block, of each value."""
        self._goals: list[tuple[int, int, Sequence]] = []
        self._serial = 0

    def add(self, sequence: Sequence) -> None:
        """It has just got a token from its prompt's last step."""
        sequence.tokens_left -= 1
        sequence.joined_step = self._steps
        self.count += 1
        self.context_tokens += sequence.request.prefix_tokens + sequence.private_tokens
        self._residues[self._residue(sequence)] += 1

    def remove(self, sequence: Sequence) -> None:
        self._residues[self._residue(sequence)] -= 1
        steps = self._steps - sequence.joined_step
        sequence.private_tokens += steps
        sequence.tokens_left -= steps
        sequence.joined_step = sequence.goal_step = -1
        self.count -= 1
        self.context_tokens -= sequence.request.prefix_tokens + sequence.private_tokens

    @staticmethod
    def _residue(sequence: Sequence) -> int:
        return (sequence.private_tokens - sequence.joined_step) % BLOCK_TOKENS

    def left(self, sequence: Sequence) -> int:
        """Tokens that it is still to produce."""
        return sequence.tokens_left - (self._steps - sequence.joined_step)

    def wake(self, sequence: Sequence, steps: int) -> None:
        """It is returned by `advance` after so many."""
        sequence.goal_step = self._steps + steps
        self._serial += 1
        heappush(self._goals, (sequence.goal_step, self._serial, sequence))

    def steps_to_event(self) -> int:
        """Until one has reached its goal; there has to be one."""
        goals = self._goals
        while goals[0][2].goal_step != goals[0][0]:
            heappop(goals)
        return goals[0][0] - self._steps

    def advance(self, steps: int) -> list[Sequence]:
        """Those that have reached their goal now, in the order in which it was set."""
        self._steps += steps
        self.context_tokens += self.count * steps
        goals, reached = self._goals, list[Sequence]()
        while goals and goals[0][0] <= self._steps:
            goal, _, sequence = heappop(goals)
            if sequence.goal_step == goal:
                reached.append(sequence)
        return reached

    def growth(self, steps: int) -> int:
        """Blocks that so many steps take: one for each sequence whose last block is full before a step."""
        whole, rest = divmod(steps, BLOCK_TOKENS)
        full = sum(self._residues[-(self._steps + step) % BLOCK_TOKENS] for step in range(rest))
        return whole * self.count + full

    def steps_within(self, blocks: int, most: int) -> int:
        """The most steps whose growth is no more than that."""
        if self.growth(most) <= blocks:
            return most
        whole = blocks // self.count
        steps, left = whole * BLOCK_TOKENS, blocks - whole * self.count
        while steps < most:
            left -= self._residues[-(self._steps + steps) % BLOCK_TOKENS]
            if left < 0:
                break
            steps += 1
        return steps
