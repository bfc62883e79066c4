"""Files from a model hub, through `huggingface_hub` where it is installed. It is never required."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from pathlib import Path
from typing import Protocol, cast

from voicepipe.errors import IndexUnreachable, MissingExtra

PACKAGE = "huggingface_hub"


class Hub(Protocol):
    """What the store needs of a model hub."""

    def __call__(self, repo: str, filename: str, *, revision: str | None, into: Path | None) -> Path:
        """Path of the file: in the folder `into`, or in the hub's own cache where that is None.

        Raises MissingExtra where the hub cannot be used at all, IndexUnreachable where it does not
        answer or does not hold the file, OSError.
        """
        ...


class _HubModule(Protocol):
    def hf_hub_download(
        self, repo_id: str, filename: str, *, revision: str | None, local_dir: str | None
    ) -> str: ...


def installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def download(repo: str, filename: str, *, revision: str | None, into: Path | None) -> Path:
    """A `Hub`. Shows its own progress bar."""
    if not installed():
        raise MissingExtra(
            f"{repo} lies on a model hub, and fetching from there needs the package {PACKAGE}: "
            f"`pip install {PACKAGE}`, or download the file yourself and give its path"
        )
    # imported here: it takes a few hundred ms, and most runs never ask the hub
    hub = cast(_HubModule, importlib.import_module(PACKAGE))
    errors = importlib.import_module(f"{PACKAGE}.errors")
    fetch = hub.hf_hub_download  # here the package configures its logging, so that comes first
    local_dir = None if into is None else str(into)
    logger = logging.getLogger(PACKAGE)
    level = logger.level
    logger.setLevel(logging.ERROR)  # its retries would be written across the progress line
    try:
        path = fetch(repo, filename, revision=revision, local_dir=local_dir)
    # HTTPError is the transport's own base (requests or httpx); ValueError: not a valid repository
    # name
    except (
        errors.HfHubHTTPError,
        errors.HTTPError,
        errors.LocalEntryNotFoundError,
        ValueError,
    ) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise IndexUnreachable(f"{repo}/{filename} cannot be fetched from the hub: {lines[0]}") from error
    finally:
        logger.setLevel(level)
    return Path(path)
