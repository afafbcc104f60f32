"""`python -m bench.sql [--events N]`: every query of Nexmark's suite, for docs/results/nexmark.md."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench._harness import RESULTS, describe, machine, say, table
from bench.engine import ground
from bench.sql import hops, nexmark
from godwit.workloads.base import Settings
from godwit.workloads.nexmark_suite import AS_PUBLISHED, QUERIES

#: Flink's events per second and core, in thousands: nexmark/nexmark GUIDE_V1.md, 3 machines of 8 cores
FLINK = dict(
    zip(
        (q for q in QUERIES if q != "q6"),
        (155, 158, 175, 152, 34, 22, 12, 146, 14, 58, 40, 76, 131, 161, 72, 19, 117, 54, 44, 19, 98, 130),
        strict=True,
    )
)
HEAD = ("query", "text", "ours, 1000 events/s and core", "plain Spark", "Flink, published", "results", "seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rate", type=float, default=100_000)
    parser.add_argument("--queries", nargs="*", default=list(QUERIES))
    chosen = parser.parse_args()
    settings = Settings(seed=1, rate=chosen.rate, seconds=chosen.events / chosen.rate)
    spark, here, rows = ground.session(), machine(), []
    with tempfile.TemporaryDirectory(prefix="godwit-nexmark-") as folder:
        work = Path(folder)
        nexmark.write(settings, work / "events", batches=8)
        hop = hops.measure(spark, work / "hops", 4_000_000)
        for query in chosen.queries:
            nexmark.ours(spark, query, settings, work / "events", work / "ours")  # warms up
            mine = nexmark.ours(spark, query, settings, work / "events", work / "ours")
            theirs = None
            if query in nexmark.NATIVE:
                theirs = nexmark.native(spark, query, settings, work / "events", work / "native")
            text = "published" if query in AS_PUBLISHED else "rewritten"
            beside = "" if theirs is None else f"{theirs.per_core / 1000:,.0f}"
            rows.append((query, text, f"{mine.per_core / 1000:,.0f}", beside, FLINK.get(query, ""), f"{mine.results:,}",
                         f"{mine.seconds:.1f}"))  # fmt: skip
            say(str(rows[-1]))
    lines = [
        "# Nexmark", "", describe(here), "",
        f"{settings.events:,} events at {chosen.rate:,.0f} a second (event time), in files. Flink's figures are",
        "its own, on other machines, with the generator inside the job and rows, not columns: no more than a hint.", "",
        *table(HEAD, rows),
        f"A hopping minute every second takes {hop['ratio']}x the time of a tumbling one ({hop['rows']:,} rows,",
        f"{hops.KEYS} keys).", "",
    ]  # fmt: skip
    (RESULTS / "nexmark.md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
