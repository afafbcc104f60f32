"""The headline of `bench.quick falcon`: falcon against every baseline on TM, delta on NQ7, many moves, many keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

from bench.falcon import many_totals, migration_rate, routing
from bench.falcon.play import Cell, Cut, play

CUT = Cut(warm_s=2.0, calm_s=2.5, moves=2, after_s=2.2, rate=300.0)
TARGETS = {"full-restart": 20, "partial-pause": 5, "on-demand": 5, "hot-backup": 1}


def figures() -> Iterator[dict[str, Any]]:
    play(Cell("warm", "tm", "falcon"), Cut(warm_s=1.0, calm_s=1.0, moves=2, after_s=2.0, rate=300.0))  # plans compile
    tm = {name: play(Cell("quick", "tm", name), CUT) for name in ("falcon", *TARGETS)}
    for other, target in TARGETS.items():
        for measure in ("disruption_ms", "jitter_ms"):
            yield _against(f"tm {measure}, falcon against {other}", tm["falcon"], tm[other], measure, target)
    windows = play(Cell("quick", "nq7", "delta"), CUT)
    yield {
        "experiment": "nq7 disruption_ms, delta",
        "ours": windows.get("disruption_ms"),
        "target": 0,
        "met": windows.get("disruption_ms") == 0,
        "oracle": windows.get("oracle"),
        "note": windows.get("failed") or f"steady {windows['steady']['mean_ms']} ms, 80 ms round trip",
    }
    rate = migration_rate.measured("tm", CUT)
    yield _ratio("p99 under 1,000 migrations per minute against calm, tm", rate, "p99_ms", "calm_p99_ms", 1.1)
    placed = routing.measured(100_000, CUT)
    yield _ratio("micro-batch with 100,000 keys placed against rest alone", placed, "batch_ms", "rest_batch_ms", 1.5)
    few, many = (many_totals.measured(count, CUT) for count in (10_000, 100_000))
    both = {**many, "few_ms": few["batch_ms"]}
    yield _ratio("micro-batch over totals of 100,000 keys against 10,000", both, "batch_ms", "few_ms", 2.0)


def _against(name: str, ours: dict[str, Any], other: dict[str, Any], measure: str, target: float) -> dict[str, Any]:
    mine, theirs = ours.get(measure), other.get(measure)
    known = mine is not None and theirs is not None
    # Where the calm was worse than what came after it, the machine was busy with other things.
    noisy = min(ours.get("jitter_ms") or 0.0, other.get("jitter_ms") or 0.0) < 0
    met = known and not noisy and theirs >= target * mine
    return {
        "experiment": name,
        "ours": mine,
        "baseline": theirs,
        "ratio": round(theirs / mine, 2) if known and mine else None,
        "target": target,
        "met": met,
        "oracle": "equal" if ours.get("oracle") == other.get("oracle") == "equal" else "different",
        "note": "ratio: baseline / ours"
        + ("; says nothing: the calm was worse than what came after it" if noisy else ""),
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
