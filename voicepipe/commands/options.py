"""The options that several commands share, and the configuration that they come to with its file."""

from __future__ import annotations

import argparse
import re
import tomllib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import get_args

from msgspec.structs import asdict

from voicepipe.commands.engines import check_models
from voicepipe.commands.folders import make_folder
from voicepipe.config import Config, Enforcement, EngineSet, OperatingPoint, parse_config
from voicepipe.errors import ConfigError
from voicepipe.recorders import Recorders, open_recorders

BUDGET_MS = (1.0, 60_000.0)
DEFAULTS = Config()
FLAGS = {
    "host": "host",
    "port": "port",
    "api_port": "api_port",
    "tls_cert": "tls_cert",
    "tls_key": "tls_key",
    "insecure": "insecure",
    "operating_point": "operating_point",
    "enforcement": "enforcement",
    "budget_ms": "budget_ms",
    "max_sessions": "limits.max_sessions",
    "admission": "admission.policy",
    "engines": "engines.kind",
    "llm": "engines.llm",
    "llm_model": "engines.llm_model",
    "asr": "engines.asr",
    "asr_second": "engines.asr_second",
    "voice": "engines.tts",
    "turn_model": "engines.turn_model",
    "ledger": "files.ledger",
    "trace": "files.trace",
    "record": "files.record",
    "experiments": "experiments",
}
"""What the command line calls an option, and its key in the configuration."""
FLAG_OF = {key: f"--{name.replace('_', '-')}" for name, key in FLAGS.items()}


STATUS_OF_A_TALK = (
    "Exit status: 0, something was said in every recording and came to a turn, also where the server then went "
    "away in order; 1, in some recording nobody spoke or nothing was heard, the session was refused or lost, or "
    "something failed; 2, wrong usage, a missing token included; 130 or 143, Ctrl-C or SIGTERM."
)

RECORDING = "say this recording (repeatable): WAV, FLAC or OGG of 8 to 384 kHz and up to 10 minutes"
JSON_LINES = (
    "one JSON object per turn, and {summary} last: turns = answered + cut_off (before the speech had ended) + "
    "unanswered (refused, failed, interrupted) + empty; answered_felt_ms holds percentiles of the answered ones "
    "alone; ended and error say why it ended"
)


def add_clips(parser: argparse.ArgumentParser, *, out: str) -> None:
    """`out`: where the replies go without --out."""
    parser.epilog = STATUS_OF_A_TALK
    parser.add_argument("--wav", action="append", type=path_of, metavar="F", help=RECORDING)
    parser.add_argument("--out", type=path_of, metavar="F", help=f"write the replies to this WAV (default {out})")
    parser.add_argument("--json", action="store_true", help=JSON_LINES)


def add_promise(parser: argparse.ArgumentParser, *, by_server: bool = False) -> None:
    """`by_server`: what is not said is the server's choice, and no default of ours."""

    def told(default: object) -> str:
        return "(default: the server's)" if by_server else f"(default {default})"

    parser.add_argument(
        "--operating-point",
        choices=get_args(OperatingPoint),
        help=f"how soon a pause ends a turn {told(DEFAULTS.operating_point)}",
    )
    parser.add_argument(
        "--enforcement",
        choices=get_args(Enforcement),
        help="what a late turn gets: an answer all the same, by cheaper ways where that helps (degrade), none "
        f"(enforce), or an answer and no cheaper way (observe) {told(DEFAULTS.enforcement)}",
    )
    parser.add_argument(
        "--budget-ms", metavar="MS", help=f"from the end of speech to sound {told(f'{DEFAULTS.budget_ms:.0f}')}"
    )


def add_engines(parser: argparse.ArgumentParser) -> None:
    add_promise(parser)
    parser.add_argument("--config", type=path_of, metavar="F.toml", help="configuration file; options go before it")
    parser.add_argument(
        "--engines",
        choices=get_args(EngineSet),
        help=f"real models, or scripted stand-ins (default {DEFAULTS.engines.kind}: real)",
    )
    parser.add_argument(
        "--llm",
        metavar="SPEC",
        help="a name of `voicepipe models`, GGUF file, hub id (org/name:file.gguf), or http(s) URL of an "
        "OpenAI-compatible endpoint, whose key is in VOICEPIPE_LLM_API_KEY "
        f"(default {DEFAULTS.engines.llm})",
    )
    parser.add_argument("--llm-model", metavar="NAME", help="the model's name at that endpoint; a URL needs one")
    parser.add_argument(
        "--asr",
        metavar="SPEC",
        help=f"faster-whisper model: name, folder or hub id (default {DEFAULTS.engines.asr})",
    )
    parser.add_argument(
        "--asr-second", metavar="SPEC", help="a larger one, to hear again in idle time what was said (default none)"
    )
    parser.add_argument(
        "--voice",
        metavar="SPEC",
        help="Piper voice: a name of `voicepipe models`, .onnx file with its .onnx.json beside it, or hub id "
        f"(default {DEFAULTS.engines.tts})",
    )
    parser.add_argument(
        "--turn-model",
        metavar="SPEC",
        help="asked in pauses whether the speaker sounds finished: smart-turn-v3.2, or a smart-turn v3 .onnx file "
        "or hub id (default none: the words tell)",
    )
    parser.add_argument(
        "--ledger",
        type=path_of,
        metavar="F.jsonl",
        help="record every chunk and turn, a JSON object per line (no words; mode 0600)",
    )
    parser.add_argument(
        "--trace",
        type=path_of,
        metavar="F.json",
        help="the same as a Chrome trace (mode 0600); open it in Perfetto",
    )
    parser.add_argument(
        "--record",
        type=path_of,
        metavar="F.jsonl",
        help="record what is decided and on what, for `voicepipe replay`; holds all WORDS that are said, no sound, "
        "and only you can read it (mode 0600)",
    )


def path_of(text: str) -> Path:
    """`Path("")` would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name was given")
    return Path(text)


def budget_ms_of(args: argparse.Namespace) -> float | None:
    """A plain decimal. Raises ConfigError."""
    text = args.budget_ms
    if text is None:
        return None
    least, most = BUDGET_MS
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", text) or not least <= float(text) <= most:
        wanted = f"a plain number of milliseconds from {least:.0f} to {most:.0f}"
        raise ConfigError(f"--budget-ms {text}: expected {wanted}", field="budget_ms")
    return float(text)


def config_of(args: argparse.Namespace) -> Config:
    """Options first, then the file. Raises ConfigError; fetches and loads nothing."""
    values = {} if args.config is None else read_file(args.config)
    for name, key in FLAGS.items():
        value = budget_ms_of(args) if name == "budget_ms" else getattr(args, name, None)
        if value is not None:
            _put(values, key, str(value) if isinstance(value, Path) else value)
    config = parse_config(values)
    check_models(config.engines)
    return config


def read_file(path: Path) -> dict[str, object]:
    """Of a configuration. Raises ConfigError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}", field="--config") from None
    except (ValueError, RecursionError) as exc:  # no TOML, no UTF-8, a number of thousands of digits, or too deep
        raise ConfigError(f"{path} is not TOML: {exc}", field="--config") from None


def _put(values: dict[str, object], key: str, value: object) -> None:
    """Where the file has something else in place of a table, that is told later, when all of it is looked at."""
    *tables, name = key.split(".")
    for table in tables:
        inner = values.setdefault(table, {})
        if not isinstance(inner, dict):
            return
        values = inner
    values[name] = value


def files_of(config: Config) -> dict[str, Path | None]:
    """The files that are to be written, by option."""
    return {FLAG_OF[f"files.{name}"]: Path(path) if path else None for name, path in asdict(config.files).items()}


def pictures_of(config: Config) -> Path | None:
    """The folder that is to be shown, if one is named. Raises ConfigError."""
    if not config.experiments:
        return None
    folder = Path(config.experiments)
    if not folder.is_dir():
        raise ConfigError(f"experiments (--experiments): there is no folder {folder}", field="experiments")
    return folder


def recorders_of(config: Config) -> AbstractContextManager[Recorders]:
    """Makes what is missing of folders. Raises ConfigError."""
    files = files_of(config)
    for option, path in files.items():
        if path is not None:
            make_folder(path, option)
    return open_recorders(*files.values())
