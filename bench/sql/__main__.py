"""`python -m bench.sql [--queries q5 q7]`: Nexmark's suite, for docs/results/nexmark.md.

What was measured is kept in out/nexmark.json by query, so that a long run can be made in pieces; the report has
whatever is there. Each query runs once to warm up and twice for the figure, ours and plain Spark in turns.
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
from bench.sql import for_ever, hops, nexmark
from bench.sql.report import for_ever as for_ever_section
from bench.sql.report import report
from godwit.workloads.base import Settings
from godwit.workloads.nexmark_suite import QUERIES

KEPT = ROOT / "out" / "nexmark.json"
#: micro-batches of a run; runs that count
BATCHES, ROUNDS = 5, 2


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
            events = ROOT / "out" / f"nexmark-{chosen.events}-{chosen.rate:.0f}"
            if chosen.queries:
                nexmark.write(settings, events, BATCHES)
            for query in chosen.queries:
                found[query] = {"machine": here, "rate": chosen.rate, **_measured(spark, query, settings, events, work)}
                say(f"{query}: {found[query]}")
                save(KEPT, found)
    kept = json.loads(for_ever.KEPT.read_text()) if for_ever.KEPT.exists() else {}
    (RESULTS / "nexmark.md").write_text(report(found) + for_ever_section(kept))


def _measured(spark: Any, query: str, settings: Settings, events: Path, work: Path) -> dict[str, Any]:
    """Each runs once to warm up, and is judged then; of those after it the best counts, for both alike."""
    first = nexmark.ours(spark, query, settings, events, work / "ours", judged=True)
    theirs = [nexmark.native_or_why(spark, query, settings, events, work / "native")]
    mine = []
    for _ in range(ROUNDS):
        mine.append(nexmark.ours(spark, query, settings, events, work / "ours"))
        if not isinstance(theirs[0], str):
            theirs.append(nexmark.native_or_why(spark, query, settings, events, work / "native"))
    best, plain = max(mine, key=lambda ran: ran.per_core), theirs[0]
    if not isinstance(plain, str):
        plain = asdict(max((ran for ran in theirs[1:] if not isinstance(ran, str)), key=lambda ran: ran.per_core))
    return {"ours": asdict(best) | {"wrong": first.wrong}, "native": plain}


if __name__ == "__main__":
    main()
