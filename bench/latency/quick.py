"""The headline figures of latency in under three minutes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.latency import idle, program, shapes, steady
from bench.latency.plans import plans
from godwit.engine.session import spark_session


def figures() -> Iterator[dict[str, Any]]:
    """See bench/quick.py. `python -m bench.latency` has all cases, for longer, and engine mode `jobs` beside them."""
    spark = spark_session(app="godwit bench", cores=2)
    for name, found in plans(spark, rounds=40).items():
        yield _plan(name, found, 40)
    yield from program.figures(program.run(spark, seconds=20.0))
    yield from steady.figures(spark, steady.QUICK, seconds=5.0, warm_s=5.0)
    yield from shapes.figures(spark, (1, 8), seconds=6.0, warm_s=6.0)
    yield from idle.figures(spark, seconds=5.0, count=8)


def _plan(name: str, found: dict[str, Any], rounds: int) -> dict[str, Any]:
    job, direct = found["median"]["job"], found["median"]["direct"]
    return {
        "experiment": f"latency/plan {name}",
        "ours": direct,
        "baseline": job,
        "ratio": round(job / direct, 2),
        "target": 6.0,
        "met": job >= 6 * direct,
        "oracle": found["oracle"],
        "note": f"ms, median of {rounds} runs over 200 rows, in turn; best {found['best']['direct']} against "
        f"{found['best']['job']}; baseline: the same cached plan as a Spark job",
    }
