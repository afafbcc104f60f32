"""`python -m bench.sql [--queries q5 q7]`: Nexmark's suite, for docs/results/nexmark.md.

What was measured is kept in out/nexmark.json by query, so that a long run can be made in pieces; the report has
whatever is there. Each query runs once to warm up and once for the figure, ours and then plain Spark.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench._harness import RESULTS, ROOT, machine, save, say
from bench.engine import ground
from bench.sql import hops, nexmark
from bench.sql.report import report
from godwit.workloads.base import Settings
from godwit.workloads.nexmark_suite import QUERIES

KEPT = ROOT / "out" / "nexmark.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=100_000)
    parser.add_argument("--queries", nargs="*", default=list(QUERIES))
    parser.add_argument("--hops", action="store_true", help="measure the hopping window, too")
    chosen = parser.parse_args()
    settings = Settings(seed=1, rate=chosen.rate, seconds=chosen.events / chosen.rate)
    found = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if chosen.queries or chosen.hops:
        spark, here = ground.session(), machine()
        with tempfile.TemporaryDirectory(prefix="godwit-nexmark-") as folder:
            work = Path(folder)
            if chosen.hops:
                found["hops"] = hops.measure(spark, work / "hops", 4_000_000)
                save(KEPT, found)
            if chosen.queries:
                nexmark.write(settings, work / "events", batches=5)
            for query in chosen.queries:
                found[query] = {"machine": here, "rate": chosen.rate, **_measured(spark, query, settings, work)}
                say(f"{query}: {found[query]}")
                save(KEPT, found)
    (RESULTS / "nexmark.md").write_text(report(found))


def _measured(spark: Any, query: str, settings: Settings, work: Path) -> dict[str, Any]:
    for _ in range(2):  # the first one warms up
        mine = nexmark.ours(spark, query, settings, work / "events", work / "ours")
    theirs = nexmark.native_or_why(spark, query, settings, work / "events", work / "native")
    if not isinstance(theirs, str):
        theirs = nexmark.native_or_why(spark, query, settings, work / "events", work / "native")
    return {"ours": asdict(mine), "native": theirs if isinstance(theirs, str) else asdict(theirs)}


if __name__ == "__main__":
    main()
