"""`python -m voicepipe` is `voicepipe`."""

import sys

from voicepipe.cli import main

sys.exit(main())
