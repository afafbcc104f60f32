"""What is to be seen of keys that migrate: the route table, each migration by phase, what a dry run says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from godwit.api.fleet import Fleet
from godwit.cli.main import app
from godwit.ids import QueryId
from tests.region.test_key_migration import ALL, ROWS
from tests.region.world import QUERIES, World


def cli(*arguments: str | Path) -> str:
    told = CliRunner().invoke(app, [str(one) for one in arguments])
    assert told.exit_code == 0, told.output
    return told.output


def test_routes_phases_and_bytes_can_be_seen(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"tumbling": QUERIES["tumbling"]})
    fleet, folder = world.fleet, world.fleet.store.disk.root
    world.play([*ROWS[:8], *[ALL] * 3])
    assert fleet.status().routes == (), "nothing is divided"

    dry = cli("migrate", folder, "tumbling", "--keys", "t*", "--to", "west", "--dry-run")
    assert "t0, t1, t2, t3: cloud -> edge-west over cloud - west: 4 keys" in dry
    assert " 0 rows" not in dry
    assert " 0 bytes" not in dry

    fleet.migrate("tumbling", keys=["t0", "t1"], to="west", strategy="falcon")
    world.play([*ROWS[8:12], *[ALL] * 6])
    fleet.process_available()

    first, rest = fleet.status().routes
    assert (first.keys, first.region, first.site, first.count) == ("t0, t1", "edge-west", "west", 2)
    assert (rest.keys, rest.region, rest.count) == ("rest", "cloud", 2)
    assert {key for key, _ in (*first.hottest, *rest.hottest)} == {"t0", "t1", "t2", "t3"}
    assert sum(share for _, share in (*first.hottest, *rest.hottest)) > 0.98
    assert json.loads(cli("status", folder, "-o", "json"))["routes"][0]["keys"] == "t0, t1"

    number = next(r["number"] for r in fleet.history.read() if r["keys"])
    told = cli("history", folder, str(number), "-o", "table")
    assert "migration " in told
    assert "copy     cloud -> edge-west: " in told
    assert "switch   cloud -> edge-west: " in told
    phases = json.loads(cli("history", folder, str(number), "-o", "json"))["migrations_of_keys"]
    (found,) = phases.values()
    assert [phase["phase"] for phase in found] == ["copy", "switch"]
    assert found[0]["bytes"] > 0
    assert all(phase["seconds"] > 0 for phase in found)

    again = cli("migrate", folder, "tumbling", "--keys", "t0", "--to", "west", "--dry-run")
    assert "t0: in edge-west already" in again

    plan = fleet.deployment.queries[QueryId("tumbling")].shape.plan
    fleet.move({f"tumbling/{i}": "east" for i in range(len(plan.operators)) if not plan.is_local(i)})
    world.play([*[ALL] * 4])
    _, rest = fleet.status().routes
    assert (rest.region, rest.site) == ("edge-east", "east"), "the rest goes where its operator goes"
    assert [str(v) for v in world.finish() if not v.equal] == []


def test_a_restart_of_a_query_has_phases_without_bytes(open_fleet: Callable[..., Fleet]) -> None:
    world = World(open_fleet, {"tumbling": QUERIES["tumbling"]})
    world.play([*ROWS[:8], ALL])
    world.fleet.migrate("tumbling", keys=["t0", "t1"], to="west", strategy="full-restart")
    world.play([*ROWS[8:12], *[ALL] * 4])
    assert [str(v) for v in world.finish() if not v.equal] == []
    found = [phase for record in world.fleet.history.read() for phase in record["keys"]]
    assert [phase["phase"] for phase in found] == ["suspend", "switch", "proceed"]
    assert [phase["bytes"] > 0 for phase in found] == [False, True, False]
    assert all(phase["seconds"] is not None for phase in found)
