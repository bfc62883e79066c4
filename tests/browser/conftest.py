"""One Chromium for all tests of the folder. Its microphone hears what a test writes before it is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.browser.house import server
from tests.browser.tab import CHROMIUM, FLAGS
from voicepipe.app import Serving

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All on one loop, the browser's; and none where there is no browser."""
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        item.add_marker(pytest.mark.asyncio(loop_scope="package"), append=False)
        if CHROMIUM is None:
            item.add_marker(pytest.mark.skip(reason="no chromium or google-chrome on this machine"))


@pytest.fixture(scope="package")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the browser's microphone plays, once, from when it is opened."""
    return tmp_path_factory.mktemp("microphone") / "speech.wav"


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def playwright() -> AsyncIterator[Any]:
    api = pytest.importorskip("playwright.async_api", reason="playwright is not installed (extra 'test')")
    async with api.async_playwright() as running:
        yield running


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def browser(playwright: Any, microphone: Path) -> AsyncIterator[Any]:
    flags = [
        *FLAGS,
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}%noloop",
    ]
    running = await playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
    yield running
    await running.close()


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def served() -> AsyncIterator[Serving]:
    """A server that all tests may use who need nothing special of it; it has room for three."""
    async with server(sessions=3) as running:
        yield running
