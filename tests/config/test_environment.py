"""Every variable that is read is documented."""

from __future__ import annotations

import re
from pathlib import Path

from voicepipe.config.environment import VARIABLES

PACKAGES = [Path(__file__).parents[2] / folder for folder in ("voicepipe", "clients/python")]


def test_no_variable_is_missing_and_none_is_made_up() -> None:
    found = {
        name
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.name != "environment.py"
        for name in re.findall(r"\bVOICEPIPE_[A-Z][A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    assert found == VARIABLES.keys()
