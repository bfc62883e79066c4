"""Keys become an entry: at `#`, after a pause, or when there are very many."""

from __future__ import annotations

from voicepipe.wire.twilio.keypad import MAX_KEYS, PAUSE_SAMPLES, Keypad


def test_an_entry_ends_with_a_hash_that_is_no_part_of_it() -> None:
    keypad = Keypad()
    assert [keypad.press(key, 0) for key in "4*2#"] == [None, None, None, "4*2"]
    assert keypad.is_empty and keypad.press("#", 0) == "#"


def test_an_entry_ends_with_a_pause_after_its_last_key() -> None:
    keypad = Keypad()
    assert keypad.hear(10 * PAUSE_SAMPLES) is None
    keypad.press("1", 0)
    keypad.press("2", PAUSE_SAMPLES - 1)
    assert keypad.hear(2 * PAUSE_SAMPLES - 2) is None
    assert keypad.hear(2 * PAUSE_SAMPLES - 1) == "12"
    assert keypad.hear(9 * PAUSE_SAMPLES) is None


def test_an_entry_has_an_end() -> None:
    keypad = Keypad()
    assert [keypad.press("1", 0) for _ in range(MAX_KEYS)] == [None] * (MAX_KEYS - 1) + ["1" * MAX_KEYS]
