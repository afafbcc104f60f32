"""All the engine's experiments, or those named: `python -m bench.engine [throughput] [many_queries] ...`.

Writes docs/results/engine/*.json and *.png and docs/results/engine.md. An experiment that fails is reported there; the
others go on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench._harness import RESULTS, machine, save, say
from bench._memory import peak_memory
from bench.engine import ground, many_queries, report, start_latency, state_growth, throughput

OUT = RESULTS / "engine"


Keep = Callable[[Any], None]


def run_throughput(spark: SparkSession, work: Path, small: bool, keep: Keep) -> Any:
    done = []
    for result in throughput.measure(spark, work, 2_000_000 if small else 20_000_000, better=small):
        done.append(result)
        keep(done)
    return done


def run_some(names: tuple[str, ...], out: Path) -> None:
    """Some workloads of `throughput`, against the better state store; the others' figures stay as they are."""
    spark, path = ground.session(), out / "throughput.json"
    kept = json.loads(path.read_text())
    for name in names:
        here, began, work = machine(), time.perf_counter(), Path(tempfile.mkdtemp(prefix="godwit-bench-"))
        (made,) = throughput.measure(spark, work, 20_000_000, (name,), better=True)
        figure = made["headline"]["experiment"]
        made |= {"machine": here, "seconds": round(time.perf_counter() - began, 1)}
        kept["result"] = [made if one["headline"]["experiment"] == figure else one for one in kept["result"]]
        save(path, kept)
        shutil.rmtree(work, ignore_errors=True)


def run_many_queries(spark: SparkSession, work: Path, small: bool, _keep: Keep) -> Any:
    ours = many_queries.measure(spark, work / "ours")
    with peak_memory() as peak:
        native = many_queries.native_ramp(spark, work / "native", at_most=4 if small else 64)
    return {"ours": ours, "native": native | {"memory": peak.to_json()}}


def run_start_latency(spark: SparkSession, work: Path, small: bool, _keep: Keep) -> Any:
    return start_latency.measure(spark, work, new=5 if small else 20, quiet_s=8.0 if small else 20.0)


def run_state_growth(spark: SparkSession, work: Path, small: bool, _keep: Keep) -> Any:
    if small:
        return state_growth.measure(spark, work, state_growth.KEYS[:3], (*state_growth.JOIN_ROWS[:2], 500_000))
    return state_growth.measure(spark, work)


#: each gets a session, a folder to work in, whether to be quick, and a way to keep what it has so far
EXPERIMENTS: dict[str, Callable[[SparkSession, Path, bool, Keep], Any]] = {
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
    asked.add_argument("--workloads", nargs="*", default=(), help="only these of throughput; the others are kept")
    args = asked.parse_args()
    if unknown := [name for name in args.names if name not in EXPERIMENTS]:
        asked.error(f"there is no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    names = args.names or EXPERIMENTS
    if args.workloads:
        run_some(tuple(args.workloads), args.out)
        report.write(args.out)
        names = ()
    spark = ground.session()
    for name in names:
        _run(spark, name, args.small, args.out)
        report.write(args.out)
    say(f"written: {args.out.parent / 'engine.md'}")


def _run(spark: SparkSession, name: str, small: bool, out: Path) -> None:
    say(f"{name} ...")
    here, began, work = machine(), time.perf_counter(), Path(tempfile.mkdtemp(prefix="godwit-bench-"))

    def keep(outcome: dict[str, Any]) -> None:
        seconds = round(time.perf_counter() - began, 1)
        save(out / f"{name}.json", {"machine": here, "seconds": seconds, "small": small, **outcome})

    try:
        whole = EXPERIMENTS[name](spark, work, small, lambda result: keep({"result": result}))
        outcome: dict[str, Any] = {"result": whole}
    except Exception as failure:
        traceback.print_exc()
        outcome = {"failure": f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''}"}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    keep(outcome)
    say(f"{name}: {'FAILED' if 'failure' in outcome else 'done'} after {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
