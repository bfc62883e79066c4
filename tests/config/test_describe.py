"""What is said of options comes from where they are declared."""

from __future__ import annotations

from voicepipe.config.describe import sections

BY_KEY = {option.key: option for section in sections() for option in section.options}
BY_NAME = {section.name: section for section in sections()}


def test_kinds_limits_and_units() -> None:
    """Out of the types; words in the order in which they are declared."""
    kinds = {key: option.kind for key, option in BY_KEY.items()}
    assert kinds["budget_ms"] == "number from 1 to 60,000, ms"
    assert kinds["limits.idle_s"] == "number above 0, up to 86,400, s"
    assert kinds["admission.late"] == "number above 0, below 1"
    assert kinds["port"] == kinds["api_port"] == "whole number from 0 to 65,535"
    assert kinds["admission.per_token.per_minute"] == "whole number from 0 to 100,000, a minute"
    assert kinds["max_reply_tokens"] == "whole number from 1 to 4,096, tokens"
    assert kinds["operating_point"] == "one of fast, balanced, safe"
    assert kinds["ladder"] == "list, each one of short-clause, no-second-pass, small-model, acknowledge, filler"
    assert kinds["acknowledge.texts"] == "list of 2 to 16, each text of up to 40 characters"
    assert kinds["engines.scripted.completeness"] == "list, each number from 0 to 1"
    assert (kinds["metrics_public"], kinds["host"]) == ("true or false", "text")


def test_texts_are_those_under_the_options() -> None:
    """In one line; a table that is used more than once says what for."""
    assert BY_KEY["budget_ms"].text.startswith("From the end of speech to sound")
    assert "\n" not in BY_KEY["ladder"].text
    assert BY_NAME["admission.per_token"].text.endswith("For each token that has no quota of its own.")
    assert BY_NAME["admission.per_address"].text != BY_NAME["admission.per_token"].text


def test_defaults_are_those_of_the_types() -> None:
    assert BY_KEY["port"].default == 8765
    assert BY_KEY["api_port"].default is None
    assert BY_KEY["tokens.NAME.env"].default == ""
