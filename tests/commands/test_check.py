"""`serve --check`: everything that would be found at start is found, and nothing is begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from voicepipe.cli import main
from voicepipe.commands.check import all_remarks, effective
from voicepipe.config import parse_config

pytestmark = pytest.mark.usefixtures("own_cache")
SCRIPTED = ["serve", "--check", "--engines", "scripted"]


def test_what_would_be_in_force_is_shown_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stdout, and nothing beside it."""
    for name in ("VOICEPIPE_SERVER_TOKENS", "VOICEPIPE_METRICS_TOKEN", "VOICEPIPE_LLM_API_KEY", "KIOSK"):
        monkeypatch.setenv(name, f"s3cret-{name}")
    (tmp_path / "key").write_text("s3cret-key\n")
    file = tmp_path / "c.toml"
    file.write_text(
        'port = 1234\n[tokens.kiosk]\nenv = "KIOSK"\n[engines]\nllm = "http://u:s3cret@h/v1"\nllm_model = "m"\n'
        f'llm_api_key_file = "{tmp_path / "key"}"\n'
    )
    assert main([*SCRIPTED, "--config", str(file), "--max-sessions", "7"]) == 0
    said = capsys.readouterr()
    shown = json.loads(said.out)
    assert (shown["port"], shown["limits"]["max_sessions"], shown["limits"]["idle_s"]) == (1234, 7, 300.0)
    assert shown["engines"]["llm"] == "http://***@h/v1"
    assert "s3cret" not in said.out + said.err and said.err == ""


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('[files]\nledger = "/nowhere/at/all/l.jsonl"', "--ledger /nowhere/at/all/l.jsonl: there is no folder"),
        ('[files]\ntrace = "/dev/null/t.json"', "/dev/null is no folder"),
        ('[files]\nrecord = "/dev"', "--record /dev: is a folder"),
        ('[files]\nledger = "a"\ntrace = "a"', "files.trace (--trace): the same file as files.ledger"),
        ('metrics_token_file = "/nowhere/token"', "metrics_token_file: /nowhere/token: No such file"),
        ('[tokens.kiosk]\nfile = "/nowhere/kiosk"', "tokens.kiosk: /nowhere/kiosk: No such file"),
        ('[engines]\nasr = "whisper-gigantic"', "whisper-gigantic"),
        ("api_port = 8765", "api_port (--api-port): the same as port"),
    ],
)
def test_what_a_start_would_stumble_over(
    lines: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, and no configuration that would be taken for one in force."""
    file = tmp_path / "c.toml"
    file.write_text(lines)
    assert main([*SCRIPTED, "--config", str(file)]) == 2
    said = capsys.readouterr()
    assert says in said.err and said.out == ""


def test_a_file_that_is_there_keeps_what_it_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server would write over it; a check does not. Nor does it make a folder."""
    (tmp_path / "l.jsonl").write_text("old")
    argv = [*SCRIPTED, "--ledger", str(tmp_path / "l.jsonl"), "--trace", str(tmp_path / "new" / "t.json")]
    assert main(argv) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["files"]["ledger"] == str(tmp_path / "l.jsonl")
    assert (tmp_path / "l.jsonl").read_text() == "old" and not (tmp_path / "new").exists()


def test_remarks_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """The status is that of what is allowed."""
    assert main([*SCRIPTED, "--host", "0.0.0.0", "--insecure", "--operating-point", "safe"]) == 0
    said = capsys.readouterr()
    assert "most turns will be late" in said.err and "everybody who reaches this machine" in said.err
    assert json.loads(said.out)["operating_point"] == "safe"


def test_a_token_for_everybody_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("VOICEPIPE_METRICS_TOKEN", "s3cret")
    config = parse_config({"metrics_public": True})
    assert "metrics_public" in effective(config)
    open_to_all = parse_config({"host": "::", "metrics_public": True})
    assert any("everybody" in remark for remark in all_remarks(open_to_all, {"VOICEPIPE_SERVER_TOKENS": "a"}))


@pytest.mark.parametrize("argv", [["--host", "0.0.0.0"], ["--host", "::", "--api-port", "0"]])
def test_a_door_that_others_reach_needs_a_token_or_a_word(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both listeners have the same host. With and without --check: status 2, and nothing listens."""
    for begin in (SCRIPTED, ["serve", "--engines", "scripted", "--port", "0"]):
        assert main([*begin, *argv]) == 2
        said = capsys.readouterr()
        assert "no token is configured" in said.err and "--insecure" in said.err and said.out == ""
    assert main([*SCRIPTED, *argv, "--insecure"]) == 0
    assert "everybody who reaches this machine gets a session" in capsys.readouterr().err
    monkeypatch.setenv("VOICEPIPE_SERVER_TOKENS", "s3cret")
    assert main([*SCRIPTED, *argv]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('tls_cert = "a.pem"', "tls_key (--tls-key): tls_cert is given, and TLS needs both"),
        ('trusted_proxies = ["10.0.0.1/8"]', "trusted_proxies[0]: expected an address, or a network"),
        ('trusted_proxies = ["127.0.0.1", "*"]', "trusted_proxies[1]: expected an address"),
        ("[limits]\naudio_rate = 0.5", "limits.audio_rate"),
    ],
)
def test_limits_and_doors_that_make_no_sense(
    lines: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.toml"
    file.write_text(lines)
    assert main([*SCRIPTED, "--config", str(file)]) == 2
    assert says in capsys.readouterr().err
