"""Metrics have names by Prometheus' conventions, and the dashboard asks for those that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from godwit.observe.status import QueryStatus, RunnerStatus, SinkStatus, Status, Times
from godwit.server.metrics import exposition

ROOT = Path(__file__).parents[2]


def exposed() -> dict[str, tuple[str, str, set[str]]]:
    """name -> (type, help, labels) of what a fleet with everything in it exposes."""
    times = Times(1.0, 2.0, 3.0)
    runner = RunnerStatus("west", "s", 1, 1, 1, 1, 0, times, times, times, 0, {"a": 1}, {"a": 1}, 0)
    query = QueryStatus("q", "s", 1, 0, 0.5)
    status = Status("f", 3, (runner,), (query,), (SinkStatus("q", "file", True, 0),), dead={"passengers": 1})
    families = text_string_to_metric_families(exposition(status, 2).decode())
    return {f.name: (f.type, f.documentation, {label for s in f.samples for label in s.labels}) for f in families}


def test_names_follow_the_conventions_of_prometheus() -> None:
    found = exposed()
    assert len(found) > 12
    for name, (kind, what, labels) in found.items():
        assert re.fullmatch(r"godwit(_[a-z0-9]+)+", name), name
        assert kind in ("counter", "gauge"), name
        assert what.endswith("."), name
        assert not re.search(r"_(ms|millis|kb|mb|percent|minutes)(_|$)", name), "base units: seconds, bytes, ratio"
        assert labels <= {"region", "query", "stream", "sink"}, "few values per label"
        # (the parser takes _total off the name of a counter, and a gauge must not have it)
        assert not name.endswith(("_total", "_count", "_sum", "_bucket")), name


def test_every_metric_of_the_dashboard_is_exposed() -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana" / "godwit.json").read_text())
    asked = {name for p in dashboard["panels"] for t in p["targets"] for name in re.findall(r"godwit_\w+", t["expr"])}
    known = {f"{name}_total" if kind == "counter" else name for name, (kind, _, _) in exposed().items()}
    assert len(asked) > 10
    assert asked <= known
