"""A microphone that hears a second of tone after half a second, and then silence; and a loudspeaker. In real time,
as threads; what was played is written to the file that PLAYED names."""

import math
import os
import struct
import threading
import time


class PortAudioError(Exception):
    pass


class _Stream:
    latency = 0.02

    def __init__(self, samplerate, callback, blocksize=None, **_):
        self._rate_hz = samplerate
        self._callback = callback
        self._block = blocksize or samplerate // 50
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()

    def close(self):
        self._over.set()
        self._thread.join()

    def _run(self):
        began, blocks = time.monotonic(), 0
        while not self._over.wait(max(0.0, began + (blocks + 1) * self._block / self._rate_hz - time.monotonic())):
            self._turn(blocks * self._block)
            blocks += 1


class RawInputStream(_Stream):
    def _turn(self, at):
        speaks = 0.5 <= at / self._rate_hz < 1.5
        tone = [round(6000 * math.sin(0.2 * n)) if speaks else 0 for n in range(self._block)]
        self._callback(struct.pack(f"<{self._block}h", *tone), self._block, None, None)


class RawOutputStream(_Stream):
    def _turn(self, at):
        out = bytearray(2 * self._block)
        self._callback(out, self._block, None, None)
        with open(os.environ["PLAYED"], "ab") as file:
            file.write(out)
