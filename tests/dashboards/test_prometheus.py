"""What the dashboard asks and what the rules watch, with a real Prometheus and real servers.

Each alert but one (`servers.figures`) is provoked at a server whose condition is true: one under load, whose
callers ask for more than there is and for budgets that it cannot make; one too slow for its budget; one that
sheds load; one that writes texts as urgently as it answers; some with an engine that fails, hangs, listens too
slowly, or hears other words each time (`trouble.py`); one with a fault; one that does not become ready; one whose
event loop is held up; one that is not there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.dashboards.watching import Seen, query_of_panel, quicker, watch
from voicepipe.resources import dashboards_dir

RULES = (dashboards_dir() / "voicepipe.rules.yml").read_text(encoding="utf-8")
DASHBOARD = json.loads((dashboards_dir() / "voicepipe.json").read_text(encoding="utf-8"))
GROUPS = {group["name"]: group["rules"] for group in yaml.safe_load(RULES)["groups"]}
ALERTS = [rule["alert"] for rule in GROUPS["voicepipe.alerts"]]
RECORDS = [rule["record"] for rule in GROUPS["voicepipe.recording"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {
    f"{panel['title']} {target['refId']}": query_of_panel(target["expr"])
    for panel in PANELS
    for target in panel["targets"]
}
PROVOKED = {
    "VoicepipeDown": "gone",
    "VoicepipeNotReady": "warming",
    "VoicepipeTurnsLate": "busy",
    "VoicepipeTurnsLateForLong": "busy",
    "VoicepipeTurnsFail": "broken",
    "VoicepipeRefusesMany": "busy",
    "VoicepipePromiseAtRisk": "slow",
    "VoicepipeBudgetOutOfReach": "slow",
    "VoicepipeOverloaded": "pressed",
    "VoicepipeLoopLags": "lagging",
    "VoicepipeSoundWaits": "deaf",
    "VoicepipeLeasesStay": "hung",
    "VoicepipeBug": "faulty",
    "VoicepipeBoundsTooLow": "figures",
    "VoicepipeBackgroundBlocks": "crowded",
    "VoicepipeSpeculationWastes": "hasty",
}
"""Each alert, and the server that it is about."""
OF_THE_MACHINE = {"VoicepipeLoopLags", "VoicepipeSoundWaits", "VoicepipeOverloaded", "VoicepipePromiseAtRisk"}
"""What a test's machine may well do to a server at rest."""

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """By a Prometheus that has watched the servers for half a minute at most."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed (Debian: apt-get install prometheus)")
    logging.getLogger("voicepipe").setLevel(logging.CRITICAL)  # of what goes wrong on purpose
    folder = tmp_path_factory.mktemp("prometheus")
    try:
        queries = set(QUERIES.values()) | set(RECORDS)
        return asyncio.run(watch(folder, RULES, queries, set(PROVOKED.items()), limit_s=40.0))
    finally:
        logging.getLogger("voicepipe").setLevel(logging.NOTSET)


@pytest.mark.parametrize("panel", QUERIES)
def test_every_query_of_the_dashboard_returns_data(panel: str, seen: Seen) -> None:
    assert QUERIES[panel] not in seen.without_data


@pytest.mark.parametrize("record", RECORDS)
def test_every_recording_rule_returns_data(record: str, seen: Seen) -> None:
    assert record not in seen.without_data


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_fires_when_its_condition_is_true(alert: str, seen: Seen) -> None:
    """At the server that it is about."""
    assert (alert, PROVOKED[alert]) in seen.firing, sorted(seen.firing)


def test_no_alert_is_about_a_server_at_which_all_is_well(seen: Seen) -> None:
    assert {alert for alert, instance in seen.firing if instance == "quiet"} <= OF_THE_MACHINE


# --- without a Prometheus


@needs_promtool
def test_the_rules_are_valid() -> None:
    rules = dashboards_dir() / "voicepipe.rules.yml"
    done = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"SUCCESS: {len(ALERTS) + len(RECORDS)} rules" in done.stdout, done.stdout


@needs_promtool
def test_the_rules_hold_what_their_tests_say() -> None:
    """Each alert fires after its time and not before, and not for the server beside it."""
    tests = Path(__file__).parent / "rules.test.yml"
    done = subprocess.run(["promtool", "test", "rules", tests], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_every_alert_has_a_test_a_page_and_a_provocation() -> None:
    """With a severity of those that the page knows."""
    tests = yaml.safe_load((Path(__file__).parent / "rules.test.yml").read_text(encoding="utf-8"))["tests"]
    tested = {case["alertname"] for test in tests for case in test.get("alert_rule_test", ()) if case["exp_alerts"]}
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    assert tested == PROVOKED.keys() == set(ALERTS)
    for rule in GROUPS["voicepipe.alerts"]:
        assert f"### {rule['alert']}\n" in page
        assert rule["annotations"]["runbook"] == f"docs/operating.md#{rule['alert'].lower()}"
        assert f"`{rule['labels']['severity']}`" in page


def test_windows_are_shortened_in_a_copy_only() -> None:
    """What the test watches are the same expressions."""
    rules = quicker(RULES)
    assert "[4s]" in rules and "[5m]" not in rules and "for: 1s" in rules and "for: 5m" not in rules
    assert len(yaml.safe_load(rules)["groups"][1]["rules"]) == len(ALERTS)


def test_the_dashboard_can_be_imported() -> None:
    """Its data source is a variable, it has no id of another Grafana's, and its panels do not overlap."""
    assert DASHBOARD.get("id") is None and DASHBOARD["uid"] == "voicepipe" and DASHBOARD["schemaVersion"] >= 36
    variables = {one["name"]: one["type"] for one in DASHBOARD["templating"]["list"]}
    assert variables == {"datasource": "datasource", "job": "query", "instance": "query"}
    assert "uid" not in json.dumps(DASHBOARD["panels"]).replace('"uid": "${datasource}"', "")
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_says_what_it_shows(panel: dict[str, object]) -> None:
    """In itself, with a unit, and in the page for operators."""
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    defaults = panel["fieldConfig"]["defaults"]  # type: ignore[index]
    assert defaults["unit"] and len(str(panel["description"])) > 10
    assert f"| {panel['title']} |" in page
    assert all(target["legendFormat"] for target in panel["targets"])  # type: ignore[attr-defined]


def test_gaps_are_shown_against_the_servers_own_budget() -> None:
    """As a dashed line: a figure of ours would be wrong for another budget."""
    for title in ("Felt gap against the budget", "System gap against the budget"):
        (panel,) = [one for one in PANELS if one["title"] == title]
        assert any("voicepipe_budget_seconds" in target["expr"] for target in panel["targets"])
        (line,) = panel["fieldConfig"]["overrides"]
        styles = {one["id"]: one["value"] for one in line["properties"]}
        assert line["matcher"]["options"] == "budget" and styles["custom.lineStyle"]["fill"] == "dash"
