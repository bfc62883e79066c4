"""voicepipe: hear, think and speak within a budget that is enforced.

Read the packages from the ground up: `errors`, `audio` and `config` import nothing of voicepipe; `core`
decides and never waits; `engines`, `models` and `wire` each know one outside world; `device` and `session`
act on what core decides; `server` and `cli` are the doors.
"""

__version__ = "0.1.0"
