"""The command's entry: `voicepipe`, and `python -m voicepipe`. Ctrl-C counts from the first import on."""

import sys

try:
    from voicepipe.cli import main
except KeyboardInterrupt:
    sys.exit(130)

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
