"""`make bench-peers`: Apache Flink, plain Spark and godwit on the same rows. Writes docs/results/peers.md.

`--quick` proves that it works: 1 million rows, seconds instead of minutes. Parts: throughput, latency, moves.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyspark

from bench._harness import RESULTS, machine, save, say
from bench.engine.data import SEED
from bench.engine.ground import session
from bench.peers import flink_install, latency, moves, report, throughput
from bench.peers.flink import Flink, flink

PARTS = ("throughput", "latency", "moves")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="to see that it works, not to measure")
    parser.add_argument("--rows", type=int, help="of each throughput workload; default: 20 million, quick: 1 million")
    parser.add_argument("--rounds", type=int, help="of each throughput workload; default: 2, quick: 1")
    parser.add_argument("--seconds", type=float, help="of each latency case, half of it before; default: 40, quick: 9")
    parser.add_argument("--without-flink", action="store_true", help="only the other two")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of peers.md and peers/peers.json")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Flink's processes are to end with this one
    work = Path(tempfile.mkdtemp(prefix="godwit-peers-"))
    found: dict[str, Any] = {
        "command": "make bench-peers" + (f" ARGS='{' '.join(sys.argv[1:])}'" if sys.argv[1:] else ""),
        "quick": options.quick,
        "machine": machine(),
        "seed": SEED,
        "spark": pyspark.__version__,
    }
    try:
        with ExitStack() as stack:
            peer = None
            if options.without_flink:
                found["flink_missing"] = "it was left out by --without-flink"
            else:
                say("starting Flink")
                peer = stack.enter_context(flink(flink_install.install(), work / "flink"))
                found["flink"] = flink_install.VERSION
            _run(found, peer, work, options)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"written: {options.out / 'peers.md'}")
    return 0 if _agrees(found) else 1


def _run(found: dict[str, Any], peer: Flink | None, work: Path, options: argparse.Namespace) -> None:
    spark, quick, began = session(), options.quick, time.monotonic()
    rows, rounds = options.rows or (1_000_000 if quick else 20_000_000), options.rounds or (1 if quick else 2)
    seconds = options.seconds or (9.0 if quick else 40.0)
    parts = {
        "throughput": lambda: throughput.measure(spark, peer, work / "throughput", rows, rounds=rounds),
        "latency": lambda: latency.measure(spark, peer, work / "latency", seconds / 2, seconds),
        "moves": lambda: moves.measure(
            spark, peer, work / "moves", moves=1 if quick else 3, warm_s=10.0 if quick else 15.0, apart_s=12.0
        ),
    }
    for part in options.parts or PARTS:
        say(f"{part} ...")
        found[part] = []
        for result in parts[part]():
            found[part].append(result)
            found["seconds"] = round(time.monotonic() - began)
            save(options.out / "peers" / "peers.json", found)  # what there is, should a later part fail
            report.write(found, options.out / "peers.md")


def _agrees(found: dict[str, Any]) -> bool:
    """Whether all found the same; Spark's and Flink's lateness in a latency run is theirs."""
    ours = [case for case in found.get("latency", []) if case["contender"].startswith("godwit")]
    return all(case["equal"] for case in [*found.get("throughput", []), *ours])


if __name__ == "__main__":
    raise SystemExit(main())
