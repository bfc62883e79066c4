"""Models that can be had, and those that cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from voicepipe.cli import main

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--llm", "http://"], "--llm"),
        (["--llm", "ftp://x"], "--llm"),
        (["--llm", "http://127.0.0.1:99999/v1"], "--llm"),
        (["--llm", "/nosuch.gguf"], "engines.llm (--llm): there is no model at /nosuch.gguf"),
        (["--llm", "nosuch.gguf"], "engines.llm (--llm): there is no model at nosuch.gguf"),
        (["--llm", "~/nosuch.gguf"], "engines.llm (--llm): there is no model at ~/nosuch.gguf"),
        (["--llm", "FOLDER"], "is no file"),
        (["--llm", "gpt-17"], "engines.llm (--llm): no model is called 'gpt-17'"),
        (["--llm", ""], "engines.llm (--llm): no model is called ''"),
        (["--llm", "whisper-base"], "engines.llm (--llm): whisper-base is a model for asr, not for llm"),
        (["--asr", "./nowhere"], "engines.asr (--asr): there is no model at ./nowhere"),
        (["--asr", "FILE"], "is a file"),
        (["--asr-second", "./nowhere"], "engines.asr_second (--asr-second): there is no model at ./nowhere"),
        (["--voice", "a/b/c.onnx"], "engines.tts (--voice): there is no model at a/b/c.onnx"),
        (["--voice", "small.en"], "engines.tts (--voice): no model is called 'small.en'"),
        (["--turn-model", "smart-turn"], "engines.turn_model (--turn-model): no model is called 'smart-turn'"),
        (["--turn-model", "whisper-tiny.en"], "is a model for asr, not for turn"),
        (["--turn-model", "./nowhere.onnx"], "engines.turn_model (--turn-model): there is no model at"),
        (["--host", ""], "host"),
        (["--llm", "http://127.0.0.1:1/v1"], "engines.llm_model (--llm-model)"),
        (["--llm-model", "m"], "engines.llm_model (--llm-model)"),
        (["--asr", "base.en", "--asr-second", "base.en"], "engines.asr_second (--asr-second)"),
        (["--asr-second", "wisper-base"], "did you mean whisper-base?"),
        (["--engines", "scripted", "--asr-second", "whisper-bas"], "did you mean whisper-base?"),
        (["--engines", "scripted", "--turn-model", "smart-turn"], "did you mean smart-turn-v3.2?"),
        (["--engines", "scripted", "--voice", "whisper-base"], "is a model for asr, not for tts"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_cannot_start_is_told_before_anything_is_fetched(
    check: bool,
    argv: list[str],
    says: str,
    tone: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By --check and by a real start alike: status 2, one line with the option."""

    def resolve(*_: object) -> None:
        raise AssertionError("a model is looked for")

    monkeypatch.setattr("voicepipe.models.store.ModelStore.resolve", resolve)
    places = {"FOLDER": str(tone.parent), "FILE": str(tone)}
    flags = [places.get(part, part) for part in argv]
    assert main(["serve", *(["--check"] if check else []), *flags]) == 2
    said = capsys.readouterr()
    assert says in said.err and len(said.err.splitlines()) == 1
    assert said.out == ""


@pytest.mark.parametrize(
    "argv",
    [
        ["--llm", "FILE", "--voice", "FILE", "--asr", "FOLDER"],
        ["--llm", "org/name:model.gguf", "--asr", "small.en", "--voice", "org/voice:a/b.onnx"],
        ["--llm", "https://host.example/v1", "--llm-model", "m", "--asr", "org/whisper"],
        ["--turn-model", "smart-turn-v3.2"],
        ["--turn-model", "none"],
        ["--turn-model", "FILE"],
        ["--engines", "scripted", "--llm", "/nosuch.gguf"],
    ],
)
def test_check_lets_pass_what_may_start(argv: list[str], tone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What lies there, what a hub may have, and paths that scripted engines never look at; nothing is fetched."""
    places = {"FOLDER": str(tone.parent), "FILE": str(tone)}
    assert main(["serve", "--check", *(places.get(part, part) for part in argv)]) == 0
    assert capsys.readouterr().err == ""
