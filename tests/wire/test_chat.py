"""Chat completions: what is asked for is taken, or refused by the field's name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voicepipe.errors import BadField, BadJson, ClientError, Unsupported
from voicepipe.wire import chat

HELLO = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}
HEAD = chat.Head("chatcmpl-1", 1000, "m")


def parse(**more: Any) -> chat.ChatRequest:
    return chat.parse(json.dumps(HELLO | more).encode())


def test_the_least_request() -> None:
    """Everything else has OpenAI's default, but for the temperature."""
    one = parse()
    assert one.messages == (("user", "Hello."),)
    assert (one.max_tokens, one.temperature, one.top_p, one.seed) == (None, chat.DEFAULT_TEMPERATURE, 1.0, None)
    assert (one.stops, one.stream, one.include_usage) == ((), False, False)


def test_what_can_be_asked_for() -> None:
    one = parse(
        max_completion_tokens=7,
        temperature=0,
        top_p=0.5,
        seed=-3,
        stop=["a", "b"],
        stream=True,
        stream_options={"include_usage": True},
    )
    assert (one.max_tokens, one.max_tokens_field) == (7, "max_completion_tokens")
    assert (one.temperature, one.top_p, one.seed) == (0.0, 0.5, -3)
    assert (one.stops, one.stream, one.include_usage) == (("a", "b"), True, True)
    assert parse(stop="x").stops == ("x",)


def test_messages_may_be_of_parts_and_of_a_developer() -> None:
    """Text parts are joined as they are."""
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts, "name": "x"}]
    assert parse(messages=messages).messages == (("system", "Be brief."), ("user", "Hello."))


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": "Hello."}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"seed": 1.5}, "seed"),
        ({"stream_options": {"tempo": 1}}, "stream_options"),
    ],
)
def test_what_makes_no_sense_is_named(more: dict[str, Any], field: str) -> None:
    with pytest.raises(BadField) as caught:
        parse(**more)
    assert caught.value.field is not None and caught.value.field.startswith(field)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(BadField) as caught:
        chat.parse(b'{"messages": [{"role": "user", "content": "x"}]}')
    assert caught.value.field == "model"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", 2),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("logprobs", True),
        ("frequency_penalty", 0.5),
        ("logit_bias", {"5": 1}),
        ("tempersture", 0.5),
    ],
)
def test_what_is_not_offered_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(Unsupported) as caught:
        parse(**{name: value})
    assert caught.value.field == name and name in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", 1), ("tools", []), ("frequency_penalty", 0.0), ("user", "x"), ("audio", None), ("store", False)],
)
def test_what_asks_for_nothing_is_taken(name: str, value: object) -> None:
    assert parse(**{name: value}) == parse()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff"])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadJson):
        chat.parse(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(sorted(chat._KNOWN | chat._NEUTRAL.keys())) | st.text(max_size=4), json_values)
)
def test_a_body_is_taken_or_refused(values: dict[str, Any]) -> None:
    """Never anything but a client's error."""
    body = json.dumps(values).encode()
    try:
        chat.parse(body)
    except ClientError as error:
        assert error.message


def test_an_answer() -> None:
    answer = json.loads(chat.completion(HEAD, "Hi.", "stop", 5, 2))
    assert answer["object"] == "chat.completion" and answer["id"] == "chatcmpl-1"
    assert answer["choices"][0]["message"]["content"] == "Hi."
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def test_events() -> None:
    """Each is one line of data and an empty one."""
    events = [chat.first_event(HEAD), chat.text_event(HEAD, "a\nb"), chat.last_event(HEAD, "length")]
    for event in (*events, chat.usage_event(HEAD, 5, 2), chat.error_event("no", "server_error", "x"), chat.DONE):
        assert event.startswith(b"data: ") and event.endswith(b"\n\n") and event.count(b"\n") == 2
    text = json.loads(events[1].removeprefix(b"data: "))
    assert text["choices"][0]["delta"] == {"content": "a\nb"}
    assert json.loads(events[2].removeprefix(b"data: "))["choices"][0]["finish_reason"] == "length"


def test_errors_and_models() -> None:
    told = json.loads(chat.error("no", "invalid_request_error", "bad_field", "stop"))
    assert told == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "stop", "code": "bad_field"}
    }
    assert json.loads(chat.models("m", 1))["data"] == [json.loads(chat.model("m", 1))]
