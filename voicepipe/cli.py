"""The command line: the only reader of argv, the environment and files, and the one that prints."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import tomllib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import msgspec

from voicepipe import __version__
from voicepipe.app import Serving, serving
from voicepipe.config import Config, parse_config
from voicepipe.conversation import Call, check_out, converse, load_clips, spoken_question
from voicepipe.engines.base import Engines
from voicepipe.engines.table import find_models, load
from voicepipe.errors import ConfigError, Refused, VoicepipeError
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter, size_text
from voicepipe.models.store import ModelStore
from voicepipe.resources import browser_dir
from voicepipe.show import Display, JsonLines, Reporter

DEFAULT_URL = "ws://127.0.0.1:8765"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 for a failure, 2 for wrong usage, 130 for Ctrl-C."""
    args = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO if args.verbose else logging.ERROR,
        format="%(levelname)s %(name)s: %(message)s",
    )
    try:
        status: int = args.run(args)
        return status
    except VoicepipeError as exc:
        print(f"voicepipe: {exc.message}", file=sys.stderr)
        return exc.exit_status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _nobody_reads()
    except ExceptionGroup as several:
        if several.split(BrokenPipeError)[1] is not None:
            raise
        return _nobody_reads()


def _nobody_reads() -> int:
    """Whoever read our output has gone; the interpreter must not try to flush it once more."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    return 1


# --- arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="voicepipe",
        description="A realtime voice pipeline that answers within 200 ms of the end of speech.",
        epilog="Start with: voicepipe demo",
    )
    parser.add_argument("--version", action="version", version=f"voicepipe {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_add_demo, _add_serve, _add_talk, _add_models):
        add(commands).add_argument("--verbose", action="store_true", help="log what happens (no words)")
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "demo",
        help="ask a spoken question over a real socket and hear the answer",
        description="Server and client in one process, over a loopback socket. Without --wav, a question is "
        "synthesised. Fetches the default models (about 220 MB) on first use.",
    )
    _add_clips(parser)
    _add_engines(parser)
    parser.set_defaults(run=_demo)
    return parser


def _add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "serve",
        help="serve voice sessions",
        description="Sessions at ws://HOST:PORT/v1/voice, the browser client at /, health at /healthz and "
        "/readyz, metrics at /metrics. Tokens for other than loopback clients: VOICEPIPE_SERVER_TOKENS, "
        "comma-separated. SIGTERM drains and exits 0; a second one ends at once.",
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (default 8765; 0 takes a free one)")
    parser.add_argument("--max-sessions", type=int, metavar="N", help="sessions at a time (default 4)")
    parser.add_argument("--check", action="store_true", help="check the configuration, print it, exit")
    _add_engines(parser)
    parser.set_defaults(run=_serve)
    return parser


def _add_talk(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "talk",
        help="talk to a server from this terminal",
        description="From the microphone (needs the `mic` extra and a headset: a terminal cancels no echo) "
        "or from recordings. A token, if the server wants one: VOICEPIPE_TOKEN.",
    )
    parser.add_argument("--url", default=DEFAULT_URL, help=f"server (default {DEFAULT_URL})")
    _add_clips(parser)
    _add_promise(parser)
    parser.set_defaults(run=_talk)
    return parser


def _add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "models",
        help="list the known models, or fetch one",
        description="Models lie in VOICEPIPE_CACHE (default: the user's cache directory) and are verified "
        "against their SHA-256 before their first load.",
    )
    actions = parser.add_subparsers(metavar="ACTION")
    fetch = actions.add_parser("fetch", help="fetch and verify a model")
    fetch.add_argument("name", help="a name from the list")
    fetch.set_defaults(run=_fetch)
    parser.set_defaults(run=_models)
    return parser


def _add_clips(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wav", action="append", type=Path, metavar="F", help="say this recording (repeatable)")
    parser.add_argument("--out", type=Path, metavar="F", help="write the replies to this WAV")
    parser.add_argument("--json", action="store_true", help="one JSON object per turn, a summary last")


def _add_promise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operating-point", choices=("fast", "balanced", "safe"), help="how soon a pause ends a turn"
    )
    parser.add_argument("--enforcement", choices=("degrade", "enforce", "observe"), help="what a late turn gets")
    parser.add_argument("--budget-ms", type=float, metavar="MS", help="end of speech to sound (default 200)")


def _add_engines(parser: argparse.ArgumentParser) -> None:
    _add_promise(parser)
    parser.add_argument("--config", type=Path, metavar="F.toml", help="configuration file")
    parser.add_argument("--engines", choices=("default", "scripted"), help="real models, or scripted stand-ins")
    parser.add_argument(
        "--llm", metavar="SPEC", help="GGUF file, hub id, or http(s) URL of an OpenAI-compatible endpoint"
    )
    parser.add_argument("--llm-model", metavar="NAME", help="the model's name at that endpoint")
    parser.add_argument("--asr", metavar="SPEC", help="faster-whisper model: name, folder or hub id")
    parser.add_argument("--voice", metavar="SPEC", help="Piper voice: .onnx file or hub id")


def _config(args: argparse.Namespace) -> Config:
    """File first, then flags. Raises ConfigError."""
    values: dict[str, object] = {}
    if args.config is not None:
        try:
            values = tomllib.loads(args.config.read_text())
        except OSError as exc:
            raise ConfigError(f"{args.config}: {exc.strerror}", field="--config") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise ConfigError(f"{args.config} is not TOML: {exc}", field="--config") from None
    tables = {
        "": {
            "host": getattr(args, "host", None),
            "port": getattr(args, "port", None),
            "operating_point": args.operating_point,
            "enforcement": args.enforcement,
            "budget_ms": args.budget_ms,
        },
        "engines": {
            "kind": args.engines,
            "llm": args.llm,
            "llm_model": args.llm_model,
            "asr": args.asr,
            "tts": args.voice,
        },
        "limits": {"max_sessions": getattr(args, "max_sessions", None)},
    }
    for table, flags in tables.items():
        target = values.setdefault(table, {}) if table else values
        if not isinstance(target, dict):
            raise ConfigError(f"{table} must be a table", field=table)
        target.update({key: value for key, value in flags.items() if value is not None})
    return parse_config(values)


# --- models


def _store() -> ModelStore:
    return ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))


def _models(args: argparse.Namespace) -> int:
    for status in _store().status():
        model = status.model
        print(f"{model.name:<24}{status.state:<9}{size_text(model.size_bytes):>10}  {model.licence}")
        for file in model.files:
            print(f"  {file.sha256}  {file.path}")
        if status.detail:
            print(f"  {status.detail}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    print(_store().fetch(args.name))
    return 0


def _loader(config: Config, store: ModelStore) -> Callable[[], Engines]:
    """Fetches what is missing now, with progress; what it returns loads later, in a thread."""
    models = find_models(config.engines, store.resolve)
    api_key = os.environ.get("VOICEPIPE_LLM_API_KEY")
    return lambda: load(config.engines, models, sessions=config.limits.max_sessions, api_key=api_key)


# --- serve


def _serve(args: argparse.Namespace) -> int:
    config = _config(args)
    if args.check:
        print(msgspec.json.format(msgspec.json.encode(config), indent=2).decode())
        return 0
    loader = _loader(config, _store())
    return asyncio.run(_serve_until_told(config, loader))


async def _serve_until_told(config: Config, loader: Callable[[], Engines]) -> int:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)

    def listening(port: int) -> None:
        print(f"listening on http://{config.host}:{port}; loading the engines", flush=True)

    tokens = frozenset(t for t in os.environ.get("VOICEPIPE_SERVER_TOKENS", "").split(",") if t)
    try:
        async with serving(
            config, loader, tokens=tokens, web_files=browser_dir(), on_listening=listening
        ) as served:
            print(_ready_text(config, served), flush=True)
            await told.wait()
            print("draining; a second signal ends at once", flush=True)
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, _stop_now, served, loop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return 0


def _stop_now(served: Serving, loop: asyncio.AbstractEventLoop) -> None:
    loop.create_task(served.server.stop(0.0), name="stop at once")


def _ready_text(config: Config, served: Serving) -> str:
    warm = served.warm
    spans = {"decode": warm.final_s, "think": warm.clause_s, "speak": warm.audio_s}
    parts = ", ".join(f"{name} {1000 * span_s:.0f} ms" for name, span_s in spans.items())
    text = (
        f"ready: ws://{config.host}:{served.server.port}/v1/voice; an unhurried turn takes "
        f"{served.achievable_ms:.0f} ms here ({parts}), the budget is {config.budget_ms:.0f} ms"
    )
    if served.achievable_ms > config.budget_ms:
        text += "; turns that are not begun ahead will miss it"
    return text


# --- demo and talk


def _demo(args: argparse.Namespace) -> int:
    clips = load_clips(args.wav or [])
    config = _config(args)
    limits = msgspec.structs.replace(config.limits, max_sessions=1, grace_s=1.0)
    config = msgspec.structs.replace(config, host="127.0.0.1", port=0, limits=limits)
    folder = default_root(os.environ) / "demo"
    out = args.out or folder / "reply.wav"
    check_out(out)
    loader = _loader(config, _store())
    reporter = _reporter(args)

    async def run() -> None:
        reporter.say("loading the engines")
        async with serving(config, loader) as served:
            reporter.say(_ready_text(config, served))
            question = clips or [await spoken_question(served.engines.tts, folder, served.on_thread)]
            call = Call(f"ws://127.0.0.1:{served.server.port}", out=out)
            await converse(call, question, reporter)

    return _report(run(), reporter)


def _talk(args: argparse.Namespace) -> int:
    clips = load_clips(args.wav or [])
    if args.out is not None:
        check_out(args.out)
    if args.budget_ms is not None:
        parse_config({"budget_ms": args.budget_ms})
    call = Call(
        args.url,
        token=os.environ.get("VOICEPIPE_TOKEN"),
        budget_ms=args.budget_ms,
        operating_point=args.operating_point,
        enforcement=args.enforcement,
        out=args.out,
    )
    reporter = _reporter(args)
    return _report(converse(call, clips, reporter), reporter)


def _reporter(args: argparse.Namespace) -> Reporter:
    return JsonLines(sys.stdout) if args.json else Display(sys.stdout)


def _report(run: Coroutine[object, object, None], reporter: Reporter) -> int:
    try:
        asyncio.run(run)
    except Refused as exc:
        reporter.on_refused(exc)
        raise
    return 0
