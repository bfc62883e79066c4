from __future__ import annotations

import errno
from pathlib import Path

import pytest

from voicepipe.errors import ModelError
from voicepipe.models import default_root
from voicepipe.models.place import storage_error


@pytest.mark.parametrize(
    ("environ", "platform", "root"),
    [
        ({"VOICEPIPE_CACHE": "/v", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "/v"),
        ({"VOICEPIPE_CACHE": "~/v", "HOME": "/h"}, "linux", "/h/v"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "linux", "/x/voicepipe"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "darwin", "/x/voicepipe"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "linux", "/h/.cache/voicepipe"),
        ({"VOICEPIPE_CACHE": "", "HOME": "/h"}, "linux", "/h/.cache/voicepipe"),
        ({"HOME": "/h"}, "darwin", "/h/Library/Caches/voicepipe"),
        ({"LOCALAPPDATA": "/l", "USERPROFILE": "/u"}, "win32", "/l/voicepipe/cache"),
        ({"USERPROFILE": "/u"}, "win32", "/u/.cache/voicepipe"),
    ],
)
def test_default_root(environ: dict[str, str], platform: str, root: str) -> None:
    assert default_root(environ, platform=platform) == Path(root)


def test_no_home_is_an_error_that_says_what_to_set() -> None:
    with pytest.raises(ModelError, match="VOICEPIPE_CACHE"):
        default_root({}, platform="linux")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (errno.ENOSPC, "the disk is full: /c/file"),
        (errno.EDQUOT, "the disk is full: /c/file"),
        (errno.EROFS, "/c/file cannot be used: .*VOICEPIPE_CACHE"),
        (errno.EACCES, "/c/file cannot be used: .*VOICEPIPE_CACHE"),
        (errno.EIO, "/c/file cannot be used"),
    ],
)
def test_storage_error_names_the_place(number: int, text: str) -> None:
    with pytest.raises(ModelError, match=text):
        raise storage_error(OSError(number, "why", "/c/file"), Path("/c"))


def test_storage_error_without_a_file_names_the_root() -> None:
    assert storage_error(OSError("odd"), Path("/c")).message == "/c cannot be used: odd"
