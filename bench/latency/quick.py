"""The headline figures of latency in under three minutes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.latency.plans import plans
from godwit.engine.session import spark_session


def figures() -> Iterator[dict[str, Any]]:
    """See bench/quick.py."""
    spark = spark_session(app="godwit bench", cores=2)
    for name, found in plans(spark).items():
        job, direct = found["median"]["job"], found["median"]["direct"]
        yield {
            "experiment": f"latency/plan {name}",
            "ours": direct,
            "baseline": job,
            "ratio": round(job / direct, 2),
            "target": 6.0,
            "met": job >= 6 * direct,
            "oracle": found["oracle"],
            "note": f"ms, median of 60 runs over 200 rows, in turn; best {found['best']['direct']} against "
            f"{found['best']['job']}; baseline: the same cached plan as a Spark job",
        }
