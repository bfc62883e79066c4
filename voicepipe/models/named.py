"""Whether a model that somebody names can be had at all: looked at before anything is fetched."""

from __future__ import annotations

import difflib
import os

from voicepipe.errors import ConfigError
from voicepipe.models.catalog import CATALOG, Kind
from voicepipe.models.spec import WHISPER_SIZES, hub_id, looks_like_path


def check_named(spec: str, kind: Kind, field: str, option: str) -> None:
    """In the order in which the store resolves: what lies there, a known name, a path, a hub's. Raises ConfigError,
    which names the field and the option."""
    wrong = _wrong(spec, kind)
    if wrong is not None:
        raise ConfigError(f"{field} ({option}): {wrong}", field=field)


def _wrong(spec: str, kind: Kind) -> str | None:
    place = os.path.expanduser(spec)
    known = CATALOG.get(spec)
    if os.path.exists(place):
        if kind == "asr" and not os.path.isdir(place):
            return f"{spec} is a file; a faster-whisper model is a folder"
        if kind != "asr" and not os.path.isfile(place):
            return f"{spec} is no file; the model's file is needed"
        return None
    if known is not None:
        return None if known.kind == kind else f"{spec} is a model for {known.kind}, not for {kind}"
    if looks_like_path(spec):
        return f"there is no model at {spec}"
    if hub_id(spec) is None and not (kind == "asr" and spec in WHISPER_SIZES):
        return f"no model is called {spec!r}{_nearest(spec, kind)}; `voicepipe models` lists the known ones"
    return None


def _nearest(spec: str, kind: Kind) -> str:
    """The known name of that kind that begins like it, or looks most like it, as a question; "" where none does."""
    known = [name for name, model in CATALOG.items() if model.kind == kind]
    known += sorted(WHISPER_SIZES) if kind == "asr" else []
    near = [name for name in known if spec and name.startswith(spec)]
    near = near or difflib.get_close_matches(spec, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
