"""`voicepipe serve`: a server, until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from voicepipe.app import Serving, serving
from voicepipe.commands.check import all_remarks, check, check_door, effective
from voicepipe.commands.engines import loader_of, model_store
from voicepipe.commands.options import DEFAULTS, add_engines, config_of, path_of, pictures_of, recorders_of
from voicepipe.commands.ready import authority, ready_text
from voicepipe.commands.secrets import read_metrics_token, read_tokens, read_twilio_token
from voicepipe.config import Config, PolicyName
from voicepipe.engines.base import Engines
from voicepipe.errors import MissingExtra
from voicepipe.metrics import leave_out_created
from voicepipe.recorders import Recorders
from voicepipe.resources import browser_dir, pictures_dir
from voicepipe.signals import (
    next_one_ends,
    on_signals,
    serve_status,
    status_of_signal,
)
from voicepipe.tls import server_context

if TYPE_CHECKING:
    from voicepipe.listener import ApiListener


def add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "serve",
        help="serve voice sessions",
        description="Sessions at ws://HOST:PORT/v1/voice, the browser client at /, health at /healthz and "
        "/readyz, metrics at /metrics, for this machine, or for whoever shows VOICEPIPE_METRICS_TOKEN. Bearer "
        "tokens: VOICEPIPE_SERVER_TOKENS, comma-separated, and [tokens.NAME] in the configuration; where there is "
        "any everybody needs one, and where there is none only this machine gets in.",
        epilog="SIGTERM and Ctrl-C drain; a second one ends at once, and so does the first one before the server "
        "is ready. Exit status: 0 after a drain, and of SIGTERM at any time; 130, Ctrl-C that did not wait; 1, "
        "something failed, such as a port that is taken; 2, wrong usage or configuration.",
    )
    parser.add_argument("--host", help=f"address to listen on (default {DEFAULTS.host})")
    parser.add_argument("--port", type=int, help=f"port (default {DEFAULTS.port}; 0 takes a free one)")
    parser.add_argument(
        "--max-sessions",
        type=int,
        metavar="N",
        help=f"sessions at a time, at most (default {DEFAULTS.limits.max_sessions})",
    )
    parser.add_argument(
        "--admission",
        choices=get_args(PolicyName),
        help=f"who gets a session below that number (default {DEFAULTS.admission.policy}: as long as turns can be "
        "in time, and always one)",
    )
    parser.add_argument(
        "--api-port",
        type=int,
        metavar="N",
        help="serve OpenAI's /v1/chat/completions there, beside the sessions and out of their way (default none)",
    )
    parser.add_argument(
        "--tls-cert",
        type=path_of,
        metavar="F.pem",
        help="speak TLS (wss, https); this certificate and its chain",
    )
    parser.add_argument("--tls-key", type=path_of, metavar="F.pem", help="its key, without a passphrase")
    parser.add_argument(
        "--insecure",
        action="store_const",
        const=True,
        help="where there is no token, let everybody in who can reach the server; without it, a --host that others "
        "reach needs a token",
    )
    parser.add_argument(
        "--experiments",
        type=path_of,
        metavar="DIR",
        help="show the pictures of this folder, SVG and PNG, at /experiments, with captions.toml as their captions "
        "(default: those of the documentation, in a checkout)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check all of it, files and secrets included, print it without secrets, exit",
    )
    add_engines(parser)
    parser.set_defaults(run=run_serve)
    return parser


@dataclass(frozen=True, slots=True)
class Secrets:
    tokens: Mapping[str, str] = field(repr=False)
    """Of callers, and their names."""
    metrics_token: str = field(repr=False)
    twilio_token: str = field(repr=False)


def run_serve(args: argparse.Namespace) -> int:
    config = config_of(args)
    secrets = Secrets(
        read_tokens(config, os.environ),
        read_metrics_token(config, os.environ),
        read_twilio_token(config, os.environ),
    )
    check_door(config, os.environ)
    tls = server_context(config.tls_cert, config.tls_key) if config.tls_cert else None
    if args.check:
        check(config, os.environ)
        print(effective(config))
    for remark in all_remarks(config, os.environ):
        print(f"voicepipe: {remark}", file=sys.stderr, flush=True)
    if args.check:
        return 0
    leave_out_created()
    with recorders_of(config) as recorders, ExitStack() as stack:
        api = _api_listener(config, tls)
        if api is not None:
            stack.enter_context(closing(api))
        loader = loader_of(config, model_store())
        return asyncio.run(serve_until_told(config, loader, recorders, secrets, api, tls))


def _api_listener(config: Config, tls: ssl.SSLContext | None) -> ApiListener | None:
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
    settings = ApiSettings(
        limits.max_text_tokens,
        limits.send_timeout_s,
        limits.max_connections,
        limits.handshake_s,
        config.instructions,
    )
    return ApiListener(config.host, config.api_port, settings, tls)


async def serve_until_told(
    config: Config,
    loader: Callable[[], Engines],
    recorders: Recorders,
    secrets: Secrets,
    api: ApiListener | None,
    tls: ssl.SSLContext | None = None,
) -> int:
    once, twice = asyncio.Event(), asyncio.Event()
    ready: list[Serving] = []
    told: list[int] = []
    http = "https" if tls else "http"

    def tell(number: int) -> None:
        if not ready:
            # Nobody is served yet, and neither a native call that loads an engine nor the interpreter's exit,
            # which waits for that call's thread, can be hurried.
            os._exit(serve_status(number))
        told.append(number)
        if once.is_set():
            twice.set()
            next_one_ends(lambda third: _status([*told, third]))
        once.set()

    def listening(port: int) -> None:
        print(f"listening on {http}://{authority(config.host, port)}; loading the engines", flush=True)

    with on_signals(tell):
        async with serving(
            config,
            loader,
            tokens=secrets.tokens,
            metrics_token=secrets.metrics_token,
            twilio_token=secrets.twilio_token,
            web_files=browser_dir(),
            pictures=pictures_of(config) or pictures_dir(),
            tls=tls,
            on_listening=listening,
            recorders=recorders,
            api=api,
        ) as served:
            ready.append(served)
            print(ready_text(config, served), flush=True)
            if api is not None:
                print(f"texts: {http}://{authority(config.host, api.port)}/v1/chat/completions", flush=True)
            await once.wait()
            await _step_back(served, config.limits.pre_stop_s, twice)
            print("draining; a second signal ends at once", flush=True)
            async with asyncio.TaskGroup() as group:
                hurry = group.create_task(_stop_at_once(served, twice), name="stop at once")
                await served.stop(config.limits.grace_s)
                hurry.cancel()
    return _status(told)


def _status(told: Sequence[int]) -> int:
    """Of the signals that ended it. A supervisor's SIGTERM is answered with 0, whatever else has come."""
    if len(told) < 2 or signal.SIGTERM in told:
        return 0
    return status_of_signal(signal.SIGINT)


async def _step_back(served: Serving, pre_stop_s: float, twice: asyncio.Event) -> None:
    """Not ready from now on, and still there for those who come."""
    served.server.step_back()
    if pre_stop_s:
        print(f"not ready; lets sessions in for {pre_stop_s:g} s more", flush=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(pre_stop_s):
                await twice.wait()


async def _stop_at_once(served: Serving, twice: asyncio.Event) -> None:
    await twice.wait()
    await served.stop(0.0)
