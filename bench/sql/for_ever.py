"""`python -m bench.sql.for_ever [totals]`: operators that keep state for ever, while their keys grow to ten million.

Every key gets a row, in large micro-batches. At each size some micro-batches of 200 rows of keys chosen at random are
measured: the median is what a user sees; the longest has what comes now and then (an index is made, segments become
one). At the end the newest answer of every key is compared with what numpy makes of the same rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from bench._harness import ROOT, machine, save, say
from bench._memory import peak_memory
from bench.engine import ground
from bench.engine.state_growth import FILL, Source, batch, fill
from godwit.api.fleet import Fleet

QUERIES = {
    "totals": "SELECT /*+ keep('forever') */ key, count(*) AS n, sum(value) AS total FROM readings GROUP BY key",
    "distinct": "SELECT /*+ keep('forever') */ DISTINCT key FROM readings",
    "lag": "SELECT key, value, lag(value) OVER (PARTITION BY key ORDER BY ts) AS before FROM readings",
    "top": """SELECT /*+ keep('forever') */ key, value FROM readings
              QUALIFY row_number() OVER (PARTITION BY key ORDER BY value DESC) <= 1""",
}
#: how many rows there must be at the end, of (rows sent, keys): all rows are answered, or one of each key
ANSWERS = {"totals": 1, "distinct": 1, "lag": 0, "top": 1}
LEVELS = (10_000, 100_000, 1_000_000, 10_000_000)
PROBE, UNCOUNTED, PROBES, TARGET = 200, 8, 24, 2.0
KEPT = ROOT / "out" / "for_ever.json"


def measure(spark: SparkSession, work: Path, query: str, levels: Sequence[int] = LEVELS) -> dict[str, Any]:
    source = Source(levels[-1] + PROBE * (UNCOUNTED + PROBES) * len(levels))
    with peak_memory() as peak, ground.fleet(spark, work, ["readings"], max_rows=10 * FILL) as fleet:
        asked = fleet.submit(QUERIES[query], "q")
        found, have = [], 0
        for level in levels:
            for keys in fill(have, level):
                batch(fleet, source.rows(keys))
            have = level
            found.append({"keys": level, **_probed(fleet, source, level)})
            say(f"  {query}: {found[-1]}")
        fleet.close_sources()
        fleet.process_available(timeout=600)
        wanted = levels[-1] if ANSWERS[query] else source.total
        right = asked.results().count() == wanted
        if query == "totals":
            right = right and asked.results().groupBy().sum("n").collect()[0][0] == source.total
    ratio = round(found[-1]["median_ms"] / found[0]["median_ms"], 2)
    return {"levels": found, "ratio": ratio, "oracle": "equal" if right else "DIFFERENT", "memory": peak.to_json()}


def _probed(fleet: Fleet, source: Source, keys: int) -> dict[str, float]:
    took = [batch(fleet, source.rows(source.draw(keys, PROBE))) for _ in range(UNCOUNTED + PROBES)]
    counted = took[UNCOUNTED:]
    return {"median_ms": round(statistics.median(counted), 1), "worst_ms": round(float(np.max(took)), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", nargs="*", default=list(QUERIES))
    parser.add_argument("--most", type=int, default=LEVELS[-1], help="the largest number of keys")
    chosen = parser.parse_args()
    found = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    spark, here = ground.session(), machine()
    for query in chosen.queries:
        with tempfile.TemporaryDirectory(prefix="godwit-forever-") as folder:
            levels = [level for level in LEVELS if level <= chosen.most]
            found[query] = {"machine": here, **measure(spark, Path(folder), query, levels)}
        say(f"{query}: {found[query]}")
        save(KEPT, found)


if __name__ == "__main__":
    main()
