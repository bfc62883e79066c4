"""The pictures of a folder as one page, so that a result is shown to a colleague with a link.

What is served are SVG and PNG files with plain names, in the folder itself and in those directly in it. Their
captions stand in a file `captions.toml` beside them (`name = "caption"`, without the name's ending; `name = false`
leaves the picture out); without one it is the picture's own <title>, or else its name. A picture that is opened
alone runs no script either.
"""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape, unescape
from http import HTTPStatus
from pathlib import Path
from typing import Literal

from voicepipe.webfiles import Reply

GALLERY_PATH = "/experiments"
CAPTIONS = "captions.toml"
KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
MAX_PICTURES = 200
MAX_PICTURE_BYTES = 8 * 1024 * 1024
"""Larger ones, and more of them, are left out, and the page says so."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_TITLE = re.compile(rb"<svg\b[^>]*>\s*<title[^>]*>([^<]{1,500})</title>")
_PICTURE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
}


@dataclass(frozen=True, slots=True)
class Picture:
    path: str
    """Below the gallery: "load.svg", "simulations/fleet.svg"."""
    caption: str
    reply: Reply = field(repr=False)


@dataclass(frozen=True, slots=True)
class Shelf:
    """The pictures of one folder, by name; `faults` are what of it cannot be shown, in words."""

    name: str
    pictures: tuple[Picture, ...]
    faults: tuple[str, ...] = ()


class Gallery:
    """Replies to `GALLERY_PATH` and below. Read anew when the page is asked for; a picture is as the page was."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._replies: Mapping[str, Reply] = {}
        self._reading: asyncio.Task[Mapping[str, Reply]] | None = None

    def reply(self, path: str) -> Reply | None:
        return self._replies.get(path)

    async def refresh(self) -> None:
        """On a thread; those who ask while the folder is read wait for the same reading."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(asyncio.to_thread(replies_of, self._folder), name="gallery")
        self._replies = await asyncio.shield(self._reading)


def replies_of(folder: Path | None) -> dict[str, Reply]:
    """URL path -> reply."""
    if folder is None:
        fault = "No folder of pictures is served here: start the server with --experiments DIR."
        shelves = [Shelf("", (), (fault,))]
    else:
        shelves = list(read_shelves(folder))
    table = {f"{GALLERY_PATH}/{picture.path}": picture.reply for shelf in shelves for picture in shelf.pictures}
    html = page_of(shelves).encode()
    table[GALLERY_PATH] = Reply(HTTPStatus.OK, "text/html; charset=utf-8", html)
    return table


def read_shelves(folder: Path) -> Iterator[Shelf]:
    """The folder and those in it that hold pictures, in the order of their names."""
    try:
        inner = sorted(path for path in folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name))
    except OSError as error:
        yield Shelf("", (), (f"The folder cannot be read: {error.strerror}.",))
        return
    left = MAX_PICTURES
    for place in (folder, *inner):
        shelf = _read_shelf(place, folder, left)
        left -= len(shelf.pictures)
        if shelf.pictures or shelf.faults:
            yield shelf


def _read_shelf(place: Path, folder: Path, most: int) -> Shelf:
    root = folder.resolve()
    pictures: list[Picture] = []
    faults: list[str] = []
    captions, fault = _captions(place / CAPTIONS)
    if fault:
        faults.append(fault)
    prefix = "" if place == folder else f"{place.name}/"
    for path in sorted(place.iterdir()):
        if path.suffix not in KINDS or not _NAME.fullmatch(path.name) or not path.is_file():
            continue
        if captions.get(path.stem) is False or not path.resolve().is_relative_to(root):
            continue  # not wanted, or a link that leads out of the folder
        if len(pictures) == most:
            faults.append(f"Only {MAX_PICTURES} pictures are shown.")
            break
        try:
            if path.stat().st_size > MAX_PICTURE_BYTES:
                faults.append(f"{path.name} is larger than {MAX_PICTURE_BYTES // 1024**2} MiB.")
                continue
            body = path.read_bytes()
        except OSError as error:
            faults.append(f"{path.name} cannot be read: {error.strerror}.")
            continue
        caption = captions.get(path.stem) or _title(body) or _in_words(path.stem)
        reply = Reply(HTTPStatus.OK, KINDS[path.suffix], body, _PICTURE_HEADERS)
        pictures.append(Picture(prefix + path.name, caption, reply))
    return Shelf("" if place == folder else place.name, tuple(pictures), tuple(faults))


def _captions(path: Path) -> tuple[dict[str, str | Literal[False]], str]:
    """And what is wrong with the file, for whoever wrote it to see."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, ""
    except (OSError, ValueError, RecursionError) as error:  # also of UTF-8 and TOML
        return {}, f"{path.name} cannot be read: {error}."
    right = {name: text for name, text in values.items() if isinstance(text, str) or text is False}
    wrong = sorted(values.keys() - right.keys())
    return right, f"{path.name}: no text for {', '.join(wrong)}." if wrong else ""


def _title(body: bytes) -> str:
    """Of an SVG file that has one."""
    found = _TITLE.search(body[:4096])
    return unescape(found[1].decode("utf-8", "replace")).strip() if found else ""


def _in_words(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")


def page_of(shelves: list[Shelf]) -> str:
    inside = "".join(map(_section, shelves)) or "<p>There is no picture in the folder.</p>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Experiments - voicepipe</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="style.css">
</head>
<body>
<header><h1>Experiments</h1><nav aria-label="Pages"><a href="./">Talk</a></nav></header>
<main class="experiments">{inside}</main>
</body>
</html>
"""


def _section(shelf: Shelf) -> str:
    heading = (
        f"<h2>{escape(shelf.name.replace('-', ' ').replace('_', ' ').capitalize())}</h2>" if shelf.name else ""
    )
    faults = "".join(f'<p role="note">{escape(fault)}</p>' for fault in shelf.faults)
    figures = "".join(map(_figure, shelf.pictures))
    return f'<section>{heading}{faults}<div class="pictures">{figures}</div></section>'


def _figure(picture: Picture) -> str:
    source = escape(f"experiments/{picture.path}")
    ident = escape(picture.path.replace("/", "-"))
    caption = escape(picture.caption)
    return (
        f'<figure id="{ident}"><a href="{source}"><img src="{source}" alt="{caption}" loading="lazy"></a>'
        f'<figcaption>{caption} <small><a href="#{ident}">{escape(picture.path)}</a></small></figcaption></figure>'
    )
