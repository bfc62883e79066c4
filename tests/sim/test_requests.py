"""What a request says of itself, before and after."""

from __future__ import annotations

from voicepipe.sim.requests import Request, request_of
from voicepipe.sim.traffic import Turn

TURN = Turn(3.0, "agent", "agent-1", 2, 6000, 2000, 1500, 0, 150)


def test_a_turn_becomes_a_request() -> None:
    request = request_of(TURN, keep_s=4.0, clause_tokens=7)
    assert (request.prompt_tokens, request.output_tokens, request.private_tokens) == (9500, 150, 3500)
    assert (request.prefix, request.session, request.keep_s) == ("agent", "agent-1", 4.0)
    assert request_of(TURN, clause_tokens=1000).clause_tokens == 150


def test_thoughts_are_not_reused_nor_is_the_answer_after_them() -> None:
    """And a last token has never been read."""
    assert Request(0.0, 100, 50).reusable_tokens == 149
    assert Request(0.0, 100, 50, thinking_tokens=30).reusable_tokens == 100


def test_latencies_count_from_when_it_was_meant_to_come() -> None:
    request = Request(1.0, 100, 5)
    assert request.first_token_s is None and request.token_s is None
    request.submitted_s, request.first_s, request.ended_s = 2.0, 3.0, 3.4
    assert request.first_token_s == 2.0
    assert request.token_s is not None and abs(request.token_s - 0.1) < 1e-12
