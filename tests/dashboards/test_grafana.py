"""The dashboard's JSON, held against the model that Grafana's own SDK has of it.

Nothing is in it that Grafana does not know, and nothing of another type or choice than Grafana has for it."""

from __future__ import annotations

import enum
import inspect
import json
import types
import typing
from typing import Any

import pytest

from voicepipe.resources import dashboards_dir

pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed (extra 'test')")
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

SEEN_BY_THE_EDITOR_ONLY = {"definition"}
"""Of a variable: what Grafana's own export repeats of its query, for the list of variables; the SDK has it not."""


@pytest.fixture(scope="module")
def exported() -> Any:
    return json.loads((dashboards_dir() / "voicepipe.json").read_text(encoding="utf-8"))


def modelled(dashboard: Any) -> Any:
    register_default_plugins()
    return Dashboard.from_json(dashboard)


def lost(given: Any, kept: Any, place: str = "") -> list[str]:
    """What is in `given`, and not in `kept`."""
    if isinstance(given, dict) and isinstance(kept, dict):
        known = given.keys() & kept.keys()
        unknown = [f"{place}.{name}" for name in given.keys() - kept.keys() - SEEN_BY_THE_EDITOR_ONLY]
        return unknown + [one for name in sorted(known) for one in lost(given[name], kept[name], f"{place}.{name}")]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        pairs = enumerate(zip(given, kept, strict=True))
        return [one for index, (a, b) in pairs for one in lost(a, b, f"{place}[{index}]")]
    return [] if given == kept and type(given) is type(kept) else [f"{place}: {given!r} is read as {kept!r}"]


def misfits(value: Any, hint: Any, place: str = "") -> list[str]:
    """What is of another type than the model says."""
    if type(value).__module__.startswith("grafana_foundation_sdk.models") and not isinstance(value, enum.Enum):
        return members(value, place)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object) or origin is typing.Literal:
        return [] if not arguments or value in arguments else [f"{place}: {value!r} is none of {arguments}"]
    if origin in (typing.Union, types.UnionType):
        found = [misfits(value, one, place) for one in arguments]
        return min(found, key=len)
    if origin is list:
        wrong = [] if isinstance(value, list) else [f"{place}: {value!r} is no list"]
        return wrong or [
            one for i, each in enumerate(value) for one in misfits(each, arguments[0], f"{place}[{i}]")
        ]
    if origin is dict:
        wrong = [] if isinstance(value, dict) else [f"{place}: {value!r} is no object"]
        return wrong or [one for k, each in value.items() for one in misfits(each, arguments[1], f"{place}.{k}")]
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return [] if value in [one.value for one in hint] else [f"{place}: {value!r} is no {hint.__name__}"]
    if hint in (str, int, float, bool, type(None)):
        fits = type(value) in ((int, float) if hint is float else (hint,))
        return [] if fits else [f"{place}: {value!r} is no {hint.__name__}"]
    return [f"{place}: {value!r} is no {hint}"]


def members(model: Any, place: str = "") -> list[str]:
    """Of an object of the SDK, whose class says which type each member has."""
    hints = typing.get_type_hints(type(model))
    return [one for name, value in vars(model).items() for one in misfits(value, hints[name], f"{place}.{name}")]


def test_grafana_knows_everything_that_is_in_the_dashboard(exported: Any) -> None:
    """What it does not know it drops in silence."""
    kept = json.loads(json.dumps(modelled(exported), cls=JSONEncoder))
    assert lost(exported, kept) == []


def test_everything_is_of_the_type_that_grafana_has_for_it(exported: Any) -> None:
    assert members(modelled(exported)) == []


def test_options_and_queries_are_held_against_models_too(exported: Any) -> None:
    """The SDK has one for each kind of panel, and one for what Prometheus is asked."""
    panels = [panel for panel in modelled(exported).panels if panel.type_val != "row"]
    assert {type(panel.options).__module__.rsplit(".", 1)[1] for panel in panels} == {
        "bargauge",
        "stat",
        "timeseries",
    }
    assert {type(target).__module__ for panel in panels for target in panel.targets} == {
        "grafana_foundation_sdk.models.prometheus"
    }


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda panel: panel.update(titel="x"), "titel"),
        (lambda panel: panel["fieldConfig"]["defaults"].update(decimals="1"), "decimals"),
        (lambda panel: panel["fieldConfig"]["defaults"]["color"].update(mode="colourful"), "mode"),
        (lambda panel: panel["options"].update(colorMode="loud"), "color_mode"),
        (lambda panel: panel["targets"][0].update(instant="yes"), "instant"),
        (lambda panel: panel["gridPos"].update(w="wide"), ".w"),
    ],
)
def test_a_mistake_would_be_found(exported: Any, change: Any, found: str) -> None:
    wrong = json.loads(json.dumps(exported))
    change(next(panel for panel in wrong["panels"] if panel["type"] == "stat"))
    model = modelled(wrong)
    kept = json.loads(json.dumps(model, cls=JSONEncoder))
    assert any(found in one for one in lost(wrong, kept) + members(model))
