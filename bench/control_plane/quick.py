"""The headline figure of the control plane in some twenty seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.control_plane.measure import one_size

LIMIT_MS = 50.0


def figures() -> Iterator[dict[str, Any]]:
    """One source moves at 10^4 sites and 10^3 queries; and what a hundred times more sites add."""
    small, large = one_size(100, 1000), one_size(10_000, 1000)
    yield {
        "experiment": "isqd/one change, 10^4 sites, 10^3 queries",
        "ours": large["median_ms"],
        "baseline": LIMIT_MS,
        "ratio": round(LIMIT_MS / large["median_ms"], 1),
        "target": "under 50 ms",
        "met": large["median_ms"] < LIMIT_MS and large["violations"] == 0,
        "oracle": "n/a",
        "note": f"ms, median of {large['changes']} device moves; p95 {large['p95_ms']} ms by the wall clock, "
        f"{large['cpu_p95_ms']} ms of processor time",
    }
    growth = round(large["median_ms"] / small["median_ms"], 2)
    yield {
        "experiment": "isqd/one change, growth from 10^2 to 10^4 sites",
        "ours": growth,
        "baseline": 100.0,
        "ratio": round(100.0 / growth, 1),
        "target": "grows with what is affected, not with the total (100 times more sites)",
        "met": growth < 10,
        "oracle": "n/a",
        "note": f"median {small['median_ms']} ms at 10^2 sites, {large['median_ms']} ms at 10^4",
    }


if __name__ == "__main__":
    import json

    for each in figures():
        print(json.dumps(each))
