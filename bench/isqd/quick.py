"""The headline figures of redeployment in about a minute: a short published cut, ours and plain Spark restarted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.control_plane.quick import figures as control_plane
from bench.isqd.cells import NATIVE, OURS, figures_7_and_8
from bench.isqd.inputs import Cut, data
from bench.isqd.report import DEPLOYMENT_TARGET, LATENCY_TARGET, aggregated, beside, growth
from bench.isqd.run import run_cell

CUT = Cut(3.0, 5.0, 1.0)


def figures() -> Iterator[dict[str, Any]]:
    """See bench/quick.py; the published inputs only where they are."""
    if data().is_dir():
        cells = {c.strategy: c for c in figures_7_and_8((4,)) if c.kind == "stateless"}
        ours = run_cell(cells[OURS], CUT)
        yield from _ours(ours)
        yield _against(ours, run_cell(cells[NATIVE], CUT))
    yield from control_plane()


def _ours(ours: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "failed" in ours:
        yield _figure("all changes handled", None, None, None, "all", False, ours["oracle"], ours["failed"])
        return
    share = ours["handled"] / ours["changes"]
    what = f"10 queries, 4 sources each, a change every second for {CUT.changes:g} s (a cut of the published run)"
    yield _figure(
        "all changes handled", ours["handled"], ours["changes"], share, 1.0, share == 1.0, ours["oracle"], what
    )
    calm, moving = (ours["latency"][part]["mean_ms"] for part in ("calm", "under_change"))
    ratio = growth(ours)
    yield _figure(
        "latency under change", moving, calm, ratio, f"at most {LATENCY_TARGET}", (ratio or 99) <= LATENCY_TARGET,
        ours["oracle"], f"mean ms from event time to result, under change and calm; {what}",
    )  # fmt: skip


def _against(ours: dict[str, Any], native: dict[str, Any]) -> dict[str, Any]:
    mine, theirs = aggregated(ours), aggregated(native)
    ratio = theirs / mine if mine and theirs else None
    both = "equal" if ours["oracle"] == native["oracle"] == "equal" else "different"
    note = "ms of placement and deployment over the whole run, ours and plain Spark queries restarted"
    for other in beside([ours, native]):
        each = "" if other.a_change is None else f"; a change handled: {other.a_change:.1f}x"
        note += f"{each}; a reconfiguration: {other.a_reconfiguration:.1f}x"
    if "handled" in native:
        note += f" (which handled {native['handled']} of {native['changes']} in time)"
    return _figure(
        "deployment latency against native-restart", mine and mine * 1000, theirs and theirs * 1000, ratio,
        DEPLOYMENT_TARGET, (ratio or 0) >= DEPLOYMENT_TARGET, both, native.get("failed", note),
    )  # fmt: skip


def _figure(
    name: str, ours: Any, baseline: Any, ratio: float | None, target: Any, met: bool, oracle: str, note: str
) -> dict[str, Any]:
    rounded = {k: round(v, 2) if isinstance(v, float) else v for k, v in (("ours", ours), ("baseline", baseline))}
    return {
        "experiment": f"isqd/{name}", **rounded, "ratio": None if ratio is None else round(ratio, 2),
        "target": target, "met": met, "oracle": oracle, "note": note,
    }  # fmt: skip


if __name__ == "__main__":
    import json

    for each in figures():
        print(json.dumps(each), flush=True)
