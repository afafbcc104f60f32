"""The headline of `bench.quick falcon`: falcon and delta against full restart and partial pause."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

from bench.falcon.play import Cell, Cut, play

CUT = Cut(warm_s=3.0, calm_s=4.0, moves=2, after_s=3.0, rate=300.0)


def figures() -> Iterator[dict[str, Any]]:
    play(Cell("warm", "tm", "falcon"), Cut(warm_s=1.0, calm_s=1.0, moves=2, after_s=2.0, rate=300.0))  # plans compile
    tm = {name: play(Cell("quick", "tm", name), CUT) for name in ("falcon", "partial-pause", "full-restart")}
    ours = tm["falcon"]
    for other, target in (("full-restart", 20), ("partial-pause", 5)):
        for measure in ("disruption_ms", "jitter_ms"):
            yield _against(f"tm {measure}, falcon against {other}", ours, tm[other], measure, target)
    windows = play(Cell("quick", "nq7", "delta"), CUT)
    yield {
        "experiment": "nq7 disruption_ms, delta",
        "ours": windows.get("disruption_ms"),
        "target": 0,
        "met": windows.get("disruption_ms") == 0,
        "oracle": windows.get("oracle"),
        "note": windows.get("failed") or f"steady {windows['steady']['mean_ms']} ms, 80 ms round trip",
    }


def _against(name: str, ours: dict[str, Any], other: dict[str, Any], measure: str, target: float) -> dict[str, Any]:
    mine, theirs = ours.get(measure), other.get(measure)
    known = mine is not None and theirs is not None
    met = known and theirs >= target * mine
    return {
        "experiment": name,
        "ours": mine,
        "baseline": theirs,
        "ratio": round(theirs / mine, 2) if known and mine else None,
        "target": target,
        "met": met,
        "oracle": "equal" if ours.get("oracle") == other.get("oracle") == "equal" else "different",
        "note": "ratio: baseline / ours",
    }
