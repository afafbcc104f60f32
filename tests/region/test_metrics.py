"""What a fleet shows of itself: to its own process, and to others that only see its folder."""

from __future__ import annotations

import datetime as dt
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from godwit.api.fleet import Fleet
from godwit.api.handles import QueryHandle
from godwit.cli.status import render, status
from godwit.delivery.sinks import CallbackSink
from godwit.errors import ConfigError
from godwit.model.topology import Link, Site, Topology
from godwit.observe.status import Times

OpenFleet = Callable[..., Fleet]
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WINDOWS = "SELECT name, sum(size) AS total, window.end AS until FROM readings GROUP BY name, window(ts, '10 seconds')"


def rows(*seconds: float) -> list[dict[str, Any]]:
    return [{"name": "n", "size": 1, "ts": START + dt.timedelta(seconds=s)} for s in seconds]


def begin(fleet: Fleet) -> QueryHandle:
    """A query whose rows come in at the edge and whose windows close in the cloud, over a hop between."""
    sites = [Site("edge", "west"), Site("hop", "west"), Site("cloud", "centre", kind="cloud")]
    fleet.topology.add(Topology.of(sites, [Link("edge", "hop"), Link("hop", "cloud")]))
    fleet.stream("readings", "name string, size int, ts timestamp", site="edge", disorder="2 seconds")
    query = fleet.submit(WINDOWS, "q", sink="cloud")
    plan = fleet.deployment.queries["q"].shape.plan  # type: ignore[index]
    fleet.move({f"q/{i}": "cloud" for i in range(len(plan.operators)) if not plan.is_local(i)})
    return query


def test_status_counts_rows_clocks_links_state_and_late_rows(open_fleet: OpenFleet, tmp_path: Path) -> None:
    fleet = open_fleet()
    query = begin(fleet)
    query.write_to(CallbackSink(lambda _: None, name="nothing"))
    for some in (rows(1, 2, 3), rows(14, 15), rows(4, 16)):  # the clock is at 13 s: second 4 is late
        fleet.push("readings", some)
        fleet.process_available()
    fleet.push("readings", [{"name": "n", "size": "many", "ts": START}])
    found = fleet.status()
    (q,) = found.queries
    west = next(r for r in found.runners if r.region == "west")
    centre = next(r for r in found.runners if r.region == "centre")
    assert (q.rows_out, q.rows_late, q.clock_lag_s) == (1, 1, 2.0)
    assert query.late().count() == 1
    assert west.rows_in == 7
    assert (centre.rows_out, centre.rows_late) == (1, 1)
    assert sum(centre.state_rows.values()) >= 1
    assert sum(centre.state_bytes.values()) > 0
    (held,) = found.state
    assert (held.instance, held.region, held.site) == ("q/2", "centre", "cloud")
    assert held.rows == sum(centre.state_rows.values())
    assert held.bytes == sum(centre.state_bytes.values())
    assert west.unread == centre.unread == 0
    assert west.batch_ms.p50 is not None
    assert west.batch_ms.p50 <= west.batch_ms.p99  # type: ignore[operator]
    assert centre.latency_ms.p50 > 0  # type: ignore[operator]
    age_ms = (time.time() - START.timestamp()) * 1000
    assert centre.event_latency_ms.p50 == pytest.approx(age_ms, rel=0.01)
    assert found.links.keys() == {"readings -> edge", "edge -> hop", "hop -> cloud"}
    assert found.links["edge -> hop"] == found.links["hop -> cloud"] > 0
    assert found.dead == {"readings": 1}
    assert [(s.sink, s.exactly_once, s.behind) for s in found.sinks] == [("nothing", False, 0)]
    fleet.push("readings", rows(17))
    assert next(r for r in fleet.status().runners if r.region == "west").unread == 1
    _from_another_process(fleet)


def _from_another_process(fleet: Fleet) -> None:
    """The same figures from the folder alone, without Spark."""
    script = (
        "import sys, pathlib\nfrom godwit.cli.status import status\n"
        f"status(pathlib.Path({str(fleet.root)!r}), 'json')\nassert 'pyspark' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == json.loads(json.dumps(fleet.status().to_json()))
    shown = io.StringIO()
    render(fleet.status().to_json(), Console(file=shown, width=200))
    for words in ("q", "west", "hop -> cloud", "at least once", "did not fit"):
        assert words in shown.getvalue()


def test_a_running_fleet_shows_its_regions_and_what_fails(open_fleet: OpenFleet) -> None:
    fleet = open_fleet()
    begin(fleet)
    fleet.start()
    fleet.push("readings", rows(1))
    fleet.process_available()
    assert {runner.region for runner in fleet.status().runners} == {"west", "centre"}
    assert fleet.status().spark == {}  # no streaming query ticks
    assert fleet.status().failures == {}
    assert fleet.query("q").late().count() == 0


def test_percentiles() -> None:
    assert Times.of([]) == Times()
    assert Times.of([None, 5.0]) == Times(5.0, 5.0, 5.0)
    assert Times.of(float(n) for n in range(1000)) == Times(500.0, 950.0, 990.0)


@pytest.mark.parametrize(("output", "words"), [("auto", "is not a fleet's folder"), ("xml", "use auto, json or")])
def test_status_of_nothing(tmp_path: Path, output: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        status(tmp_path, output)
