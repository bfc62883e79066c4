"""A Prometheus of one's own, which looks at servers (`servers.py`) once a second."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.dashboards.servers import servers

SHORTER = {"5m": "4s", "15m": "6s", "1h": "6s", "6h": "8s"}
"""Windows of the rules, for a test."""


class Prometheus:
    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def has_data(self, query: str) -> bool:
        """A value that is a number."""
        found = self.get("/api/v1/query", query=query)["result"]
        return any(one["value"][1] != "NaN" for one in found)

    def firing(self) -> set[tuple[str, str]]:
        """(alert, instance)"""
        alerts = self.get("/api/v1/alerts")["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"]["instance"])
            for alert in alerts
            if alert["state"] == "firing"
        }

    def is_ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as answer:
            return bool(answer.status == 200)
        return False


@contextmanager
def prometheus(folder: Path, rules: str, targets: Mapping[str, int]) -> Iterator[Prometheus]:
    """One that looks at them once a second."""
    (folder / "rules.yml").write_text(rules)
    seen = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": instance}} for instance, port in targets.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "voicepipe", "static_configs": seen}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            made, end = Prometheus(port), time.monotonic() + 20
            while not made.is_ready():
                assert process.poll() is None and time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.1)
            yield made
        finally:
            process.terminate()
            process.wait(20)


def quicker(rules: str) -> str:
    """The rules with windows and waits of seconds."""
    rules = re.sub(r"\[(\w+)\]", lambda match: f"[{SHORTER[match[1]]}]", rules)
    return re.sub(r"\bfor: \w+", "for: 1s", rules)


def query_of_panel(expression: str) -> str:
    """As Grafana asks it, of all servers."""
    values = {"$__rate_interval": "5s", "$__range": "10s", "$job": ".*", "$instance": ".*"}
    for name, value in values.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


class Seen(msgspec.Struct):
    """What Prometheus had to say in half a minute."""

    without_data: set[str]
    firing: set[tuple[str, str]]
    """(alert, instance) of every alert that fired at some time."""


async def watch(folder: Path, rules: str, queries: set[str], alerts: set[tuple[str, str]], limit_s: float) -> Seen:
    """Until every query has had data and every alert has fired, or for so long."""
    seen = Seen(set(queries), set())
    clock = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as group, servers(group) as targets:
        with prometheus(folder, quicker(rules), targets) as asked:
            end = clock() + limit_s
            while clock() < end and (seen.without_data or not alerts <= seen.firing):
                for query in sorted(seen.without_data):
                    if await asyncio.to_thread(asked.has_data, query):
                        seen.without_data.discard(query)
                seen.firing |= await asyncio.to_thread(asked.firing)
                await asyncio.sleep(0.5)
    return seen
