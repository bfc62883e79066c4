"""The command line: the only reader of argv, the environment and files, and the one that prints."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import signal
import sys
import tomllib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from voicepipe import __version__
from voicepipe.app import Serving, serving
from voicepipe.config import Config, EnginesConfig, TokenConfig, parse_config
from voicepipe.conversation import Call, check_out, converse, load_clips, spoken_question
from voicepipe.engines.base import Engines
from voicepipe.engines.table import find_models, has_turn_model, is_url, load
from voicepipe.errors import ConfigError, EngineError, MissingExtra, RecordingError, Refused, VoicepipeError
from voicepipe.models.named import check_named
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter, size_text
from voicepipe.models.store import ModelStore
from voicepipe.recorders import Recorders, open_recorders
from voicepipe.replay import as_dict, as_lines, replay
from voicepipe.resources import browser_dir
from voicepipe.show import Display, JsonLines, Reporter
from voicepipe.signals import (
    Terminated,
    next_one_ends,
    on_signals,
    serve_status,
    sigterm_raises,
    status_of_signal,
)

if TYPE_CHECKING:
    from voicepipe.listener import ApiListener

DEFAULT_URL = "ws://127.0.0.1:8765"
BUDGET_MS = (1.0, 60_000.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0, 1 for a failure, 2 for wrong usage, 130 for Ctrl-C, 143 for SIGTERM; SIGTERM ends `serve`
    with 0 at any time."""
    args = _parser().parse_args(argv)
    status_of = serve_status if args.run is _serve else status_of_signal
    try:
        with sigterm_raises(status_of):
            return _run(args)
    except Terminated:
        return status_of(signal.SIGTERM)
    except KeyboardInterrupt:
        return status_of(signal.SIGINT)


def _run(args: argparse.Namespace) -> int:
    logging.basicConfig(
        level=logging.INFO if args.verbose else logging.ERROR,
        format="%(levelname)s %(name)s: %(message)s",
    )
    try:
        status: int = args.run(args)
        return status
    except VoicepipeError as exc:
        print(f"voicepipe: {_told(exc)}", file=sys.stderr)
        return exc.exit_status
    except BrokenPipeError:
        return _nobody_reads()
    except ExceptionGroup as several:
        if several.split(BrokenPipeError)[1] is not None:
            raise
        return _nobody_reads()


def _told(error: VoicepipeError) -> str:
    """With the cause of an engine's failure. Nobody has said anything yet when one ends a command: the failures
    of turns, whose causes might hold what was said, stay in their sessions."""
    cause = error.__cause__
    if not isinstance(error, EngineError) or cause is None or str(cause) in error.message:
        return error.message
    return f"{error.message} ({type(cause).__name__}: {' '.join(str(cause).split())})"


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
    for add in (_add_demo, _add_serve, _add_talk, _add_models, _add_replay):
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
        "comma-separated. SIGTERM drains and exits 0; a second one ends at once, and so does the "
        "first one before the server is ready.",
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port (default 8765; 0 takes a free one)")
    parser.add_argument("--max-sessions", type=int, metavar="N", help="sessions at a time (default 4)")
    parser.add_argument(
        "--admission",
        choices=("none", "count", "token-bucket", "aimd", "gradient", "vegas", "deadline"),
        help="who gets a session below that number (default deadline: as long as turns can be in time)",
    )
    parser.add_argument(
        "--api-port",
        type=int,
        metavar="N",
        help="serve OpenAI's /v1/chat/completions there, beside the sessions and out of their way (default none)",
    )
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


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "replay",
        help="decide a recorded run anew, and compare",
        description="Tells fresh turns and a fresh scheduler, offline, what a file of --record holds, and compares "
        "the commands one by one. Status 0 where all are the same, 1 where one differs (it is shown, with its "
        "words), 2 where the file is no recording of this version. One that breaks off is replayed up to its last "
        "whole line.",
    )
    parser.add_argument("file", type=_path, metavar="F", help="a recording of `demo` or `serve`")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=_replay)
    return parser


def _add_clips(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wav", action="append", type=_path, metavar="F", help="say this recording (repeatable)")
    parser.add_argument("--out", type=_path, metavar="F", help="write the replies to this WAV")
    parser.add_argument("--json", action="store_true", help="one JSON object per turn, a summary last")


def _add_promise(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--operating-point", choices=("fast", "balanced", "safe"), help="how soon a pause ends a turn"
    )
    parser.add_argument("--enforcement", choices=("degrade", "enforce", "observe"), help="what a late turn gets")
    parser.add_argument("--budget-ms", metavar="MS", help="end of speech to sound (default 200)")


def _add_engines(parser: argparse.ArgumentParser) -> None:
    _add_promise(parser)
    parser.add_argument("--config", type=_path, metavar="F.toml", help="configuration file")
    parser.add_argument("--engines", choices=("default", "scripted"), help="real models, or scripted stand-ins")
    parser.add_argument(
        "--llm", metavar="SPEC", help="GGUF file, hub id, or http(s) URL of an OpenAI-compatible endpoint"
    )
    parser.add_argument("--llm-model", metavar="NAME", help="the model's name at that endpoint")
    parser.add_argument("--asr", metavar="SPEC", help="faster-whisper model: name, folder or hub id")
    parser.add_argument(
        "--asr-second", metavar="SPEC", help="a larger one, to hear again in idle time what was said (default none)"
    )
    parser.add_argument("--voice", metavar="SPEC", help="Piper voice: .onnx file or hub id")
    parser.add_argument(
        "--turn-model",
        metavar="SPEC",
        help="asked in pauses whether the speaker sounds finished: smart-turn-v3.2, or a smart-turn v3 .onnx file "
        "(default none: the words tell)",
    )
    parser.add_argument(
        "--ledger",
        type=_path,
        metavar="F.jsonl",
        help="record every chunk and turn, a JSON object per line (no words)",
    )
    parser.add_argument(
        "--trace", type=_path, metavar="F.json", help="the same as a Chrome trace; open it in Perfetto"
    )
    parser.add_argument(
        "--record",
        type=_path,
        metavar="F.jsonl",
        help="record what is decided and on what, for `voicepipe replay`; holds all WORDS that are said, no sound",
    )


def _path(text: str) -> Path:
    """`Path("")` would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name was given")
    return Path(text)


def _budget_ms(args: argparse.Namespace) -> float | None:
    """A plain decimal. Raises ConfigError."""
    text = args.budget_ms
    if text is None:
        return None
    least, most = BUDGET_MS
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]{1,6})?", text) or not least <= float(text) <= most:
        wanted = f"a plain number of milliseconds from {least:.0f} to {most:.0f}"
        raise ConfigError(f"--budget-ms {text}: expected {wanted}", field="budget_ms")
    return float(text)


def _config(args: argparse.Namespace) -> Config:
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
            "budget_ms": _budget_ms(args),
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
    _check_models(config.engines)
    return config


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


def _check_models(engines: EnginesConfig) -> None:
    """Whether every model that will be needed is here or can be asked for: before anything is fetched, so that a
    slip in one name costs no download of the others. Raises ConfigError."""
    if engines.kind == "scripted":
        return
    check_named(engines.asr, "asr", "engines.asr", "--asr")
    if engines.asr_second:
        check_named(engines.asr_second, "asr", "engines.asr_second", "--asr-second")
    if not is_url(engines.llm):
        check_named(engines.llm, "llm", "engines.llm", "--llm")
    check_named(engines.tts, "tts", "engines.tts", "--voice")
    if has_turn_model(engines):
        check_named(engines.turn_model, "turn", "engines.turn_model", "--turn-model")


def _loader(config: Config, store: ModelStore) -> Callable[[], Engines]:
    """Fetches what is missing now, with progress; what it returns loads later, in a thread."""
    models = find_models(config.engines, store.resolve)
    api_key = os.environ.get("VOICEPIPE_LLM_API_KEY")
    return lambda: load(config.engines, models, sessions=config.limits.max_sessions, api_key=api_key)


# --- serve


def _serve(args: argparse.Namespace) -> int:
    config = _config(args)
    tokens = read_tokens(config, os.environ)
    if args.check:
        print(msgspec.json.format(msgspec.json.encode(config), indent=2).decode())
        return 0
    with _recorders(args) as recorders, ExitStack() as stack:
        api = _api_listener(config)
        if api is not None:
            stack.enter_context(closing(api))
        loader = _loader(config, _store())
        return asyncio.run(_serve_until_told(config, loader, recorders, tokens, api))


def _api_listener(config: Config) -> ApiListener | None:
    """The second listener, where one is wanted. Raises MissingExtra, PortInUse and EnvironmentFailure."""
    if config.api_port is None:
        return None
    try:
        from voicepipe.api import ApiSettings
        from voicepipe.listener import ApiListener
    except ModuleNotFoundError as exc:
        raise MissingExtra(
            f"{exc.name} is not installed; --api-port needs the extra: "
            "pip install 'voicepipe-realtime[api]' (from a checkout: pip install '.[api]')"
        ) from None
    limits = config.limits
    settings = ApiSettings(limits.max_text_tokens, limits.send_timeout_s)
    return ApiListener(config.host, config.api_port, settings, max_connections=limits.max_connections)


def _recorders(args: argparse.Namespace) -> AbstractContextManager[Recorders]:
    return open_recorders(args.ledger, args.trace, args.record)


def read_tokens(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Each bearer token and its name. Raises ConfigError, which shows none of them."""
    given = [token for token in environ.get("VOICEPIPE_SERVER_TOKENS", "").split(",") if token]
    tokens = {token: f"token-{number}" for number, token in enumerate(dict.fromkeys(given), 1)}
    for name, where in config.tokens.items():
        token = _read_token(name, where, environ)
        if token in tokens:
            raise ConfigError(f"tokens.{name}: the same token as {tokens[token]}", field=f"tokens.{name}")
        if name in tokens.values():
            raise ConfigError(
                f"tokens.{name}: VOICEPIPE_SERVER_TOKENS has one of that name", field=f"tokens.{name}"
            )
        tokens[token] = name
    return tokens


def _read_token(name: str, where: TokenConfig, environ: Mapping[str, str]) -> str:
    field = f"tokens.{name}"
    if where.env:
        token, source = environ.get(where.env, ""), f"the environment variable {where.env}"
    else:
        try:
            token, source = Path(where.file).read_text(encoding="utf-8").strip(), where.file
        except OSError as exc:
            raise ConfigError(f"{field}: {where.file}: {exc.strerror}", field=field) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{field}: {where.file} is not text", field=field) from None
    if not token or any(char.isspace() or not char.isprintable() for char in token):
        raise ConfigError(f"{field}: {source} holds no token, or one with white space in it", field=field)
    return token


async def _serve_until_told(
    config: Config,
    loader: Callable[[], Engines],
    recorders: Recorders,
    tokens: Mapping[str, str],
    api: ApiListener | None,
) -> int:
    once, twice = asyncio.Event(), asyncio.Event()
    ready: list[Serving] = []

    def tell(number: int) -> None:
        if not ready:
            # Nobody is served yet, and neither a native call that loads an engine nor the interpreter's exit,
            # which waits for that call's thread, can be hurried.
            os._exit(serve_status(number))
        if once.is_set():
            twice.set()
            next_one_ends(serve_status)
        once.set()

    def listening(port: int) -> None:
        print(f"listening on http://{_authority(config.host, port)}; loading the engines", flush=True)
        if not tokens and not _is_local(config.host):
            print(
                "no token is configured, so that clients on other machines will be turned away: set "
                "VOICEPIPE_SERVER_TOKENS, or [tokens.NAME] in the configuration",
                file=sys.stderr,
                flush=True,
            )

    with on_signals(tell):
        async with serving(
            config,
            loader,
            tokens=tokens,
            web_files=browser_dir(),
            on_listening=listening,
            recorders=recorders,
            api=api,
        ) as served:
            ready.append(served)
            print(_ready_text(config, served), flush=True)
            if api is not None:
                print(f"texts: http://{_authority(config.host, api.port)}/v1/chat/completions", flush=True)
            await once.wait()
            print("draining; a second signal ends at once", flush=True)
            async with asyncio.TaskGroup() as group:
                hurry = group.create_task(_stop_at_once(served, twice), name="stop at once")
                await served.stop(config.limits.grace_s)
                hurry.cancel()
    return 0


async def _stop_at_once(served: Serving, twice: asyncio.Event) -> None:
    await twice.wait()
    await served.stop(0.0)


def _authority(host: str, port: int) -> str:
    """As it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_local(host: str) -> bool:
    """Can nobody but this machine reach it?"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ready_text(config: Config, served: Serving) -> str:
    warm = served.warm
    spans = {"decode": warm.final_s, "think": warm.clause_s, "speak": warm.audio_s}
    if served.engines.turn_model is not None:
        spans["judge"] = warm.judge_s
    parts = ", ".join(f"{name} {1000 * span_s:.0f} ms" for name, span_s in spans.items())
    text = (
        f"ready: ws://{_authority(config.host, served.server.port)}/v1/voice; an unhurried turn takes "
        f"{served.achievable_ms:.0f} ms here ({parts}; measured for {served.warmed_s:.1f} s), "
        f"the budget is {config.budget_ms:.0f} ms"
    )
    if served.achievable_ms > config.budget_ms:
        text += "; turns that are not begun ahead will miss it"
    if (
        config.admission.policy == "deadline"
        and 1000 * warm.total_s > config.budget_ms
        and config.limits.max_sessions > 1
    ):
        text += ", so that --admission deadline takes one session at a time"
    return text


# --- replay


def _replay(args: argparse.Namespace) -> int:
    try:
        with args.file.open("rb") as file:
            report = replay(file, str(args.file))
    except OSError as exc:
        raise RecordingError(f"{args.file}: {exc.strerror}", field="file") from None
    lines = [msgspec.json.encode({"summary": as_dict(report)}).decode()] if args.json else as_lines(report)
    print("\n".join(lines))
    return 0 if report.agreed else 1


# --- demo and talk


def _demo(args: argparse.Namespace) -> int:
    clips = load_clips(args.wav or [])
    config = _config(args)
    limits = msgspec.structs.replace(config.limits, max_sessions=1, grace_s=1.0)
    config = msgspec.structs.replace(config, host="127.0.0.1", port=0, limits=limits)
    folder = default_root(os.environ) / "demo"
    out = args.out or folder / "reply.wav"
    check_out(out)
    reporter = _reporter(args)

    async def run(loader: Callable[[], Engines], recorders: Recorders) -> bool:
        reporter.say("loading the engines")
        async with serving(config, loader, recorders=recorders) as served:
            reporter.say(_ready_text(config, served))
            question = clips or [await spoken_question(served.engines.tts, folder, served.on_thread)]
            call = Call(f"ws://127.0.0.1:{served.server.port}", out=out)
            return await converse(call, question, reporter)

    with _recorders(args) as recorders:
        loader = _loader(config, _store())
        return _report(run(loader, recorders), reporter)


def _talk(args: argparse.Namespace) -> int:
    clips = load_clips(args.wav or [])
    if args.out is not None:
        check_out(args.out)
    call = Call(
        args.url,
        token=os.environ.get("VOICEPIPE_TOKEN"),
        budget_ms=_budget_ms(args),
        operating_point=args.operating_point,
        enforcement=args.enforcement,
        out=args.out,
    )
    reporter = _reporter(args)
    return _report(converse(call, clips, reporter), reporter)


def _reporter(args: argparse.Namespace) -> Reporter:
    return JsonLines(sys.stdout, sys.stderr) if args.json else Display(sys.stdout)


def _report(run: Coroutine[object, object, bool], reporter: Reporter) -> int:
    """0, or 1 where nothing of what was said has been heard."""
    try:
        return asyncio.run(_until_told(run))
    except Refused as exc:
        reporter.on_refused(exc)
        raise


async def _until_told(run: Coroutine[object, object, bool]) -> int:
    """The first signal cancels `run`, which prints and writes what there is; a second one doesn't wait for it."""
    task = asyncio.ensure_future(run)
    told: list[int] = []

    def tell(number: int) -> None:
        told.append(number)
        task.cancel()
        next_one_ends(status_of_signal)

    with on_signals(tell):
        try:
            return 0 if await task else 1
        except asyncio.CancelledError:
            if not told:
                raise
            return status_of_signal(told[0])
