"""The tree of errors: stable codes, the close code and the exit status that go with each."""

from __future__ import annotations

import inspect

import pytest

from voicepipe import errors
from voicepipe.errors import ClientError, Refused, UsageError, VoicepipeError

ALL = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, VoicepipeError)]


def test_codes_are_unique() -> None:
    """A code names one class, or clients could not tell them apart."""
    codes = [error.code for error in ALL]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_every_error_is_in_the_drawn_tree(error: type[VoicepipeError]) -> None:
    """The docstring's tree is the list that people read."""
    assert errors.__doc__ is not None
    assert error.__name__ in errors.__doc__


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_close_codes_and_statuses_are_in_range(error: type[VoicepipeError]) -> None:
    """Close codes that an endpoint may send; 2 for wrong usage and nothing but 1 and 2."""
    assert error.close_code in {1009, 1011, 1013, 4400, 4409, 4429}
    assert error.exit_status == (2 if issubclass(error, UsageError) or error is errors.UnknownModel else 1)


def test_only_the_peers_fault_can_be_fatal_to_a_connection() -> None:
    """A fatal one closes with a code of its own, never with 1011, which is ours."""
    fatal = [error for error in ALL if issubclass(error, ClientError) and error.fatal]
    assert fatal and all(error.close_code != 1011 for error in fatal)


def test_a_refusal_says_why_and_when() -> None:
    """Both as fields, and in the text for people."""
    refused = Refused("capacity", 1500)
    assert (refused.reason, refused.retry_after_ms) == ("capacity", 1500)
    assert "capacity" in str(refused) and "1500 ms" in str(refused)
