"""The experiments by name. Each is a module of this folder with an `EXPERIMENT`, loaded when it is asked for."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

from voicepipe.errors import UnknownExperiment
from voicepipe.sim.experiment import Experiment

NAMES = (
    "isolation",
    "goodput",
    "overload",
    "capacity",
    "admission-quality",
    "attribution",
    "ladder",
    "reasoning-budget",
    "same-rps",
    "kv-gap",
    "prefix-affinity",
    "vision-pool",
    "fleet",
)
"""In the order in which they are listed: what a voice session is promised, then what a fleet is sized by."""


def find(name: str) -> Experiment:
    """Raises UnknownExperiment, which names the nearest one."""
    if name not in NAMES:
        near = get_close_matches(name, NAMES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}?" if near else "see voicepipe simulate --list"
        raise UnknownExperiment(f"there is no experiment {name!r}; {hint}", field="name")
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    assert experiment.name == name
    return experiment
