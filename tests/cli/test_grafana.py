"""The dashboard asks for metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_metric_of_the_dashboard_is_exposed() -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana" / "godwit.json").read_text())
    asked = {name for p in dashboard["panels"] for t in p["targets"] for name in re.findall(r"godwit_\w+", t["expr"])}
    known = set(re.findall(r'"(godwit_\w+)"', (ROOT / "src" / "godwit" / "server" / "metrics.py").read_text()))
    assert len(asked) > 10
    assert asked <= known
