"""The microphone's clock: the worklet by itself, asked as a browser asks it, with literal frames."""

from __future__ import annotations

from typing import Any

from tests.browser.house import site, telling
from tests.browser.tab import open_tab
from tests.browser.test_accessible import conversing

QUANTUM = 128
RATE_HZ = 48_000
ALONE = """(() => {
  let Processor, currentFrame = 0;
  const sampleRate = %d;
  const registerProcessor = (name, made) => (Processor = made);
  class AudioWorkletProcessor {
    constructor() { this.port = { said: [], postMessage(data) { this.said.push(data); } }; }
  }
  %s
  const one = new Processor({ processorOptions: { isOpen: true } });
  for (const frame of %s) {
    currentFrame = frame;
    one.process([[new Float32Array(%d).fill(0.5)]], [[new Float32Array(%d)]]);
  }
  return one.port.said.map(({ frame, ...rest }) =>
    frame ? { offset: new DataView(frame).getUint32(4), samples: [...new Int16Array(frame, 8)] } : rest);
})()"""


async def said(browser: Any, asked_at: list[int]) -> list[dict[str, Any]]:
    """What the worklet posts that is asked at these frames of its context."""
    source = (site() / "capture-worklet.js").read_text(encoding="utf-8")
    async with telling(conversing) as url, open_tab(browser) as tab:
        await tab.page.goto(url)
        posted: list[dict[str, Any]] = await tab.value(ALONE % (RATE_HZ, source, asked_at, QUANTUM, QUANTUM))
    return posted


async def test_a_frame_begins_where_its_offset_says(browser: Any) -> None:
    begun, first, second = await said(browser, [1_280 + QUANTUM * n for n in range(15)])
    assert begun == {"begun": 1_280}
    assert [first["offset"], second["offset"]] == [0, 960]
    assert len(first["samples"]) == 960 and set(first["samples"]) == {16_384}


async def test_what_a_busy_browser_does_not_ask_for_is_silence_and_the_clock_goes_on(browser: Any) -> None:
    """Quanta 4 to 6 are left out: every later sample still lies where the context's clock has it."""
    asked_at = [QUANTUM * n for n in range(18) if n not in (4, 5, 6)]
    posted = await said(browser, asked_at)
    frames = [one for one in posted if "offset" in one]
    sound = [sample for frame in frames for sample in frame["samples"]]
    assert [frame["offset"] for frame in frames] == [0, 960]
    assert {"missed": 3 * QUANTUM} in posted
    assert [sound[QUANTUM * n] for n in (3, 4, 6, 7, 14)] == [16_384, 0, 0, 16_384, 16_384]
