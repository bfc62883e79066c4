"""The options that several commands share, and the configuration that they come to with its file."""

from __future__ import annotations

import argparse
import re
import tomllib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import get_args

from voicepipe.commands.engines import check_models
from voicepipe.commands.folders import make_folder
from voicepipe.config import Config, Enforcement, EngineSet, OperatingPoint, parse_config
from voicepipe.errors import ConfigError
from voicepipe.recorders import Recorders, open_recorders

BUDGET_MS = (1.0, 60_000.0)
DEFAULTS = Config()


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
    """File first, then flags. Raises ConfigError; fetches and loads nothing."""
    values: dict[str, object] = {}
    if args.config is not None:
        try:
            values = tomllib.loads(args.config.read_text(encoding="utf-8-sig"))
        except OSError as exc:
            raise ConfigError(f"{args.config}: {exc.strerror}", field="--config") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise ConfigError(f"{args.config} is not TOML: {exc}", field="--config") from None
    tables = {
        "": {
            "host": getattr(args, "host", None),
            "port": getattr(args, "port", None),
            "api_port": getattr(args, "api_port", None),
            "operating_point": args.operating_point,
            "enforcement": args.enforcement,
            "budget_ms": budget_ms_of(args),
        },
        "engines": {
            "kind": args.engines,
            "llm": args.llm,
            "llm_model": args.llm_model,
            "asr": args.asr,
            "asr_second": args.asr_second,
            "tts": args.voice,
            "turn_model": args.turn_model,
        },
        "limits": {"max_sessions": getattr(args, "max_sessions", None)},
        "admission": {"policy": getattr(args, "admission", None)},
    }
    for table, flags in tables.items():
        target = values.setdefault(table, {}) if table else values
        if not isinstance(target, dict):
            raise ConfigError(f"{table} must be a table", field=table)
        target.update({key: value for key, value in flags.items() if value is not None})
    config = parse_config(values)
    check_models(config.engines)
    return config


def recorders_of(args: argparse.Namespace) -> AbstractContextManager[Recorders]:
    """Raises ConfigError."""
    for option, path in {"--ledger": args.ledger, "--trace": args.trace, "--record": args.record}.items():
        if path is not None:
            make_folder(path, option)
    return open_recorders(args.ledger, args.trace, args.record)
