"""What a connection costs, on a small scale: the bound holds for every kind of client, and nothing is left."""

from __future__ import annotations

import json

import connections
import pytest


@pytest.mark.timeout(300)
async def test_each_kind_of_client_keeps_to_the_bound_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = await connections.measure(idle_n=30, hostile_n=8, cycles_n=100, seconds=4.0)
    assert [row["clients"] for row in rows] == ["idle", "flooding", "not_reading", "come_and_go"]
    for row in rows:
        left = row["left"]
        assert isinstance(left, dict)
        each = row.get("kib_each", 0)
        assert isinstance(each, int) and each <= connections.BOUND_KIB, row
        assert (left["tasks"], left["sessions"], left["leases"], left["remembered"]) == (0, 0, 0, 0), row
        assert left["descriptors"] <= 0, row
    assert isinstance(rows[0]["kib_each"], int) and rows[0]["kib_each"] < 1024
    last = rows[-1]["left"]
    assert isinstance(last, dict) and last["rss_kib"] < 4096, "it grows with every client that comes and goes"
    connections.show(rows)
    line = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(line)["summary"]["bound_kib"] == connections.BOUND_KIB
