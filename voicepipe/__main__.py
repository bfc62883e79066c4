"""The command's entry: `voicepipe`, and `python -m voicepipe`. Signals count from the first import on: Ctrl-C
ends at once, SIGTERM waits until the command line knows what it means for the command."""

import signal
import sys

if sys.platform != "win32":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # cli.main lets it through

try:
    from voicepipe.cli import main
except KeyboardInterrupt:
    sys.exit(130)

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
