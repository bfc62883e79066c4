"""The options that commands share, and the file that they go before."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from voicepipe.cli import main
from voicepipe.commands.options import FLAGS, config_of
from voicepipe.commands.serve import add_serve
from voicepipe.config.describe import sections

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize(
    "argv", [["talk", "--wav", ""], ["demo", "--wav", ""], ["talk", "--out", ""], ["serve", "--config", ""]]
)
def test_an_empty_name_is_called_so(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It would be the current folder."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert f"argument {argv[1]}: an empty name was given" in capsys.readouterr().err


def test_an_unknown_key_of_the_configuration_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error in the file must not be a silent default."""
    path = tmp_path / "c.toml"
    path.write_text("[engines]\nvoize = 'x'\n")
    assert main(["serve", "--check", "--config", str(path)]) == 2
    assert "voize" in capsys.readouterr().err


def test_a_mark_at_the_beginning_of_the_configuration_is_read_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some editors write one."""
    path = tmp_path / "c.toml"
    path.write_text("port = 1234\n", encoding="utf-8-sig")
    assert main(["serve", "--check", "--config", str(path), "--budget-ms", "150.5"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["port"], shown["budget_ms"]) == (1234, 150.5)


def test_check_prints_what_would_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flags win over the file."""
    path = tmp_path / "c.toml"
    path.write_text("port = 1234\nbudget_ms = 150\n")
    assert main(["serve", "--check", "--config", str(path), "--port", "4321"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["port"], shown["budget_ms"]) == (4321, 150)


ABOUT_THE_COMMAND = {"config", "check", "help"}
"""Options of `serve` that say how it is called, and not what it serves."""
ONLY_IN_A_FILE = {
    "ladder", "acknowledge", "filler", "instructions", "max_reply_tokens", "origins", "metrics_public",
    "metrics_token_file", "trusted_proxies",
    "engines.llm_small_model", "engines.llm_timeout_s", "engines.llm_failures", "engines.llm_api_key_file",
    "engines.language", "engines.threads", "engines.context_tokens", "engines.memory_tokens", "engines.text_slots",
    "engines.llm_pool", "engines.scripted", "limits", "resume", "admission", "overload", "tokens", "twilio",
}  # fmt: skip
"""Tables and options without a flag: what is thought about once, not at each start. A new option is entered here,
or gets one."""


def serve_parser() -> argparse.ArgumentParser:
    return add_serve(argparse.ArgumentParser().add_subparsers())


def test_every_option_of_serve_is_one_of_the_file() -> None:
    names = {action.dest for action in serve_parser()._actions}
    keys = {option.key for section in sections() for option in section.options}
    assert names - ABOUT_THE_COMMAND == FLAGS.keys()
    assert set(FLAGS.values()) <= keys


def test_every_option_of_the_file_has_a_flag_or_a_reason() -> None:
    def is_excused(key: str) -> bool:
        parts = key.split(".")
        return any(".".join(parts[: n + 1]) in ONLY_IN_A_FILE for n in range(len(parts)))

    keys = [option.key for section in sections() for option in section.options]
    assert [key for key in keys if key not in FLAGS.values() and not is_excused(key)] == []
    assert {key for key in ONLY_IN_A_FILE if not any(f"{one}.".startswith(f"{key}.") for one in keys)} == set()


VALUES = {
    "port": ("4321", 4321), "api_port": ("4322", 4322), "budget_ms": ("150.5", 150.5),
    "max_sessions": ("9", 9), "operating_point": ("safe", "safe"), "enforcement": ("observe", "observe"),
    "admission": ("vegas", "vegas"), "engines": ("scripted", "scripted"), "llm": ("http://h/v1", "http://h/v1"),
    "turn_model": ("none", "none"), "insecure": ("", True), "asr": ("whisper-base", "whisper-base"),
    "asr_second": ("whisper-base", "whisper-base"), "voice": ("org/voice:v.onnx", "org/voice:v.onnx"),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_goes_before_the_file_and_that_before_the_default(name: str, tmp_path: Path) -> None:
    """Each, by its key; the same value in the file alone comes to the same."""
    text, value = VALUES.get(name, ("some", "some"))
    *tables, key = FLAGS[name].split(".")
    more = "kind = 'scripted'\nllm_model = 'm'\nllm = 'http://g/v1'\n" if name in ("llm", "llm_model") else ""
    more = "tls_cert = 'c'\ntls_key = 'k'\n" if name in ("tls_cert", "tls_key") else more
    lines = "".join(f"{line}\n" for line in more.splitlines() if not line.startswith(f"{key} "))
    head = f"[{'.'.join(tables)}]\n" if tables else ""
    file = tmp_path / "c.toml"
    file.write_text(f"{head}{lines}{key} = {json.dumps(value)}\n")

    def found(*argv: str) -> object:
        config: object = config_of(serve_parser().parse_args([*argv, "--engines", "scripted"]))
        for part in [*tables, key]:
            config = getattr(config, part)
        return config

    assert found("--config", str(file)) == value
    other, wanted = {"port": ("1", 1), "api_port": ("2", 2), "budget_ms": ("99", 99.0)}.get(name, (text, value))
    option = f"--{name.replace('_', '-')}"
    given = [option] if value is True else [option, other]
    assert found("--config", str(file), *given) == wanted
    if not more:
        assert found(*given[:1], *([] if value is True else [text])) == value


def test_a_table_that_is_none_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where an option would go into it."""
    file = tmp_path / "c.toml"
    file.write_text("limits = 3\n")
    assert main(["serve", "--check", "--config", str(file), "--max-sessions", "2"]) == 2
    assert "limits: expected a table, [limits]" in capsys.readouterr().err
