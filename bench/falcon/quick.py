"""The headline of `bench.quick falcon`: falcon against every baseline on TM, delta on NQ7, many moves.

Keys that are placed one by one take longer: `python -m bench.falcon routing`. Totals of many keys: area `sql`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

from bench.falcon import migration_rate
from bench.falcon.play import NONE, play
from bench.falcon.run import warm
from bench.falcon.sending import Cell, Cut

CUT = Cut(warm_s=2.0, calm_s=2.0, rounds=2, rate=300.0, busy_s=5.0)
#: a result is pushed every 50 ms: what is less is not told apart from 0
LEAST_MS = 1.0
TARGETS = {"full-restart": 20, "partial-pause": 5, "on-demand": 5, "hot-backup": 1}


def figures() -> Iterator[dict[str, Any]]:
    warm()
    tm = _by_strategy(Cell("quick", "tm", "tm", (NONE, "falcon", *TARGETS)))
    for other, target in TARGETS.items():
        for measure in ("disruption_ms", "jitter_ms"):
            yield _against(f"tm {measure}, falcon against {other}", tm["falcon"], tm[other], measure, target)
    windows = _by_strategy(Cell("quick", "nq7", "nq7", (NONE, "delta")))
    delta, none = windows["delta"], windows.get(NONE, {})
    yield {
        "experiment": "nq7 disruption_ms, delta",
        "ours": delta.get("disruption_ms"),
        "baseline": none.get("disruption_ms"),
        "target": 0,
        "met": delta.get("disruption_ms") == 0,
        "oracle": delta.get("oracle"),
        "note": delta.get("failed")
        or f"baseline: nothing migrates; steady {delta['steady']['mean_ms']} ms, 80 ms trip",
    }
    (rate,) = migration_rate.measured("tm", CUT)
    yield _ratio("p99 under 1,000 migrations per minute against calm, tm", rate, "p99_ms", "calm_p99_ms", 1.1)


def _by_strategy(cell: Cell) -> dict[str, dict[str, Any]]:
    return {one["cell"]["strategy"]: one for one in play(cell, CUT)}


def _against(name: str, ours: dict[str, Any], other: dict[str, Any], measure: str, target: float) -> dict[str, Any]:
    mine, theirs = ours.get(measure), other.get(measure)
    known = mine is not None and theirs is not None
    met = known and theirs >= target * max(mine, LEAST_MS)  # type: ignore[operator, type-var]
    return {
        "experiment": name,
        "ours": mine,
        "baseline": theirs,
        "ratio": round(theirs / mine, 2) if known and mine else None,
        "target": target,
        "met": met,
        "oracle": "equal" if ours.get("oracle") == other.get("oracle") == "equal" else "different",
        "note": f"ratio: baseline / ours; in turns within one run, {len(ours.get('moves', ()))} migrations each",
    }


def _ratio(name: str, found: dict[str, Any], ours: str, baseline: str, most: float) -> dict[str, Any]:
    mine, theirs = found.get(ours), found.get(baseline)
    ratio = round(mine / theirs, 2) if mine and theirs else None
    told = {key: found[key] for key in ("done_per_minute", "epochs", "placing_s", "failed") if key in found}
    return {
        "experiment": name,
        "ours": mine,
        "baseline": theirs,
        "ratio": ratio,
        "target": most,
        "met": ratio is not None and ratio <= most,
        "oracle": found.get("oracle"),
        "note": f"ratio: ours / baseline; {told}",
    }
