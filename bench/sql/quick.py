"""The area's headline figures, in under three minutes: `python -m bench.quick sql`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench._harness import headline, say
from bench.engine import ground
from bench.sql import for_ever, hops, nexmark
from godwit.workloads.base import Settings

EVENTS = Settings(seed=1, rate=20_000, seconds=20)
FEW = Settings(seed=5, rate=200, seconds=12, sources=2, disorder=1)
#: of single rows, and a session
SHOWN = ("q1", "q11")
#: keys that totals are kept of for ever
KEYS = (10_000, 1_000_000)


def figures() -> Iterator[dict[str, Any]]:
    spark = ground.session()
    with tempfile.TemporaryDirectory(prefix="godwit-sql-") as folder:
        work = Path(folder)
        found = nexmark.equal(spark, work, FEW)
        say(f"nexmark: {found}")
        note = "queries of q0 to q22 whose results equal the batch's"
        note += f"; not {found['different']}" if found["different"] else ""
        yield headline("sql/nexmark_equal", found["equal"], 23, 1.0, oracle="equal", note=note)
        hop = hops.measure(spark, work / "hops", 2_000_000)
        yield headline(
            "sql/hopping_minute_every_second",
            round(hop["seconds"]["hopping"], 2),
            round(hop["seconds"]["tumbling"], 2),
            "at most 1.3x a tumbling minute",
            met=hop["ratio"] <= hops.TARGET,
            note=f"seconds for {hop['rows']:,} rows, {hops.KEYS} keys",
        )
        kept = for_ever.measure(spark, work / "totals", "totals", KEYS)
        yield headline(
            "sql/totals_for_ever",
            *(level["median_ms"] for level in reversed(kept["levels"])),
            f"at most {for_ever.TARGET:g}x",
            met=kept["ratio"] <= for_ever.TARGET,
            oracle=kept["oracle"],
            note=f"ms of a micro-batch of {for_ever.PROBE} rows over totals of {KEYS[1]:,} keys and of {KEYS[0]:,}",
        )
        nexmark.write(EVENTS, work / "events", batches=4)
        for query in SHOWN:
            for warm in (True, False):
                mine = nexmark.ours(spark, query, EVENTS, work / "events", work / "ours")
                theirs = nexmark.native(spark, query, EVENTS, work / "events", work / "native")
                if not warm:
                    note = f"events/s and core; {mine.events:,} events: {mine.seconds:.1f} and {theirs.seconds:.1f} s"
                    rates = round(mine.per_core), round(theirs.per_core)
                    yield headline(f"sql/{query}", *rates, 1.0, note=note)
