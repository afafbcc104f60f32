"""All the engine's experiments, or those named: `python -m bench.engine [throughput] [many_queries] ...`.

Writes docs/results/engine/*.json and *.png and docs/results/engine.md. An experiment that fails is reported there; the
others go on.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench._harness import RESULTS, machine, save, say
from bench.engine import ground, many_queries, report, start_latency, state_growth, throughput
from bench.engine.memory import peak_memory

OUT = RESULTS / "engine"


def run_throughput(spark: SparkSession, work: Path, small: bool) -> Any:
    return list(throughput.measure(spark, work, 2_000_000 if small else 20_000_000, quick=small))


def run_many_queries(spark: SparkSession, work: Path, small: bool) -> Any:
    ours = many_queries.measure(spark, work / "ours")
    with peak_memory() as peak:
        native = many_queries.native_ramp(spark, work / "native", at_most=4 if small else 64)
    return {"ours": ours, "native": native | {"memory": peak.to_json()}}


def run_start_latency(spark: SparkSession, work: Path, small: bool) -> Any:
    return start_latency.measure(spark, work, new=5 if small else 20, quiet_s=8.0 if small else 20.0)


def run_state_growth(spark: SparkSession, work: Path, small: bool) -> Any:
    if small:
        return state_growth.measure(spark, work, state_growth.KEYS[:3], (*state_growth.JOIN_ROWS[:2], 500_000))
    return state_growth.measure(spark, work)


EXPERIMENTS: dict[str, Callable[[SparkSession, Path, bool], Any]] = {
    "throughput": run_throughput,
    "many_queries": run_many_queries,
    "start_latency": run_start_latency,
    "state_growth": run_state_growth,
}


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m bench.engine", description=__doc__)
    asked.add_argument("names", nargs="*", metavar="experiment", help=f"of {', '.join(EXPERIMENTS)}; default: all")
    asked.add_argument("--small", action="store_true", help="fewer rows: to try the bench out, not to measure")
    asked.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    args = asked.parse_args()
    if unknown := [name for name in args.names if name not in EXPERIMENTS]:
        asked.error(f"there is no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    spark = ground.session()
    for name in args.names or EXPERIMENTS:
        save(args.out / f"{name}.json", _run(spark, name, args.small))
        report.write(args.out)
    say(f"written: {args.out.parent / 'engine.md'}")


def _run(spark: SparkSession, name: str, small: bool) -> dict[str, Any]:
    say(f"{name} ...")
    here, began, work = machine(), time.perf_counter(), Path(tempfile.mkdtemp(prefix="godwit-bench-"))
    try:
        outcome: dict[str, Any] = {"result": EXPERIMENTS[name](spark, work, small)}
    except Exception as failure:
        traceback.print_exc()
        outcome = {"failure": f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    seconds = time.perf_counter() - began
    say(f"{name}: {'FAILED' if 'failure' in outcome else 'done'} after {seconds:.0f} s")
    return {"machine": here, "seconds": round(seconds, 1), "small": small, **outcome}


if __name__ == "__main__":
    main()
