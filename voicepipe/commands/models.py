"""`voicepipe models`: what is known, and what is here."""

from __future__ import annotations

import argparse

from voicepipe.commands.engines import model_store
from voicepipe.models.progress import size_text


def add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "models",
        help="list the known models, or fetch one",
        description="Models lie in VOICEPIPE_CACHE (default: the user's cache directory) and are verified "
        "against their SHA-256 before their first load.",
        epilog="Exit status: 0; 1, a model could not be fetched or is not what its hash says; 2, an unknown name.",
    )
    actions = parser.add_subparsers(metavar="ACTION")
    fetch = actions.add_parser("fetch", help="fetch and verify a model")
    fetch.add_argument("name", help="a name from the list")
    fetch.set_defaults(run=_fetch)
    parser.set_defaults(run=_models)
    return parser


def _models(args: argparse.Namespace) -> int:
    for status in model_store().status():
        model = status.model
        print(f"{model.name:<24}{status.state:<9}{size_text(model.size_bytes):>10}  {model.licence}")
        for file in model.files:
            print(f"  {file.sha256}  {file.path}")
        if status.detail:
            print(f"  {status.detail}")
    return 0


def _fetch(args: argparse.Namespace) -> int:
    print(model_store().fetch(args.name))
    return 0
