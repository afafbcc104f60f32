"""The core in full: `python -m bench.core [--save]`. Leftovers over `--cycles` cycles (10,000 take hours of Spark)."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from bench._harness import machine, say
from bench.core import report
from bench.core.commit_record import commit_record
from bench.core.control_leftovers import control_leftovers
from bench.core.leftovers import leftovers
from bench.core.lines import lines
from bench.core.quick import SIZES, device_moves
from godwit.engine.session import spark_session


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.core", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write docs/results/core.md and core/after.json")
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--hops", type=int, default=100)
    options = parser.parse_args(arguments)
    where = machine()
    found: dict[str, object] = {"lines": lines(), "device_move": device_moves(SIZES, moves=50) or {}}
    say("device moves measured")
    spark = spark_session(app="godwit bench", cores=2)
    with tempfile.TemporaryDirectory() as folder:
        found["commit_record"] = commit_record(spark, Path(folder) / "records", hops=options.hops)
        say("commit records measured")
        found["leftovers"] = leftovers(spark, Path(folder) / "leftovers", cycles=options.cycles)
    say("leftovers of the data plane measured")
    found["control_leftovers"] = control_leftovers()
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    if options.save:
        report.save(found, where)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
