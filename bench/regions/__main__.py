"""`python -m bench.regions`: figures of regions as processes; with --chaos, random faults for as long as asked."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from bench._harness import RESULTS, machine, save


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.regions")
    parser.add_argument("--chaos", action="store_true", help="random faults instead of figures")
    parser.add_argument("--far", action="store_true", help="Falcon's and ISQD's cells over 80 ms of round trip")
    parser.add_argument("--cells", nargs="+", choices=("isqd", "tm"), default=("isqd", "tm"), help="of --far")
    parser.add_argument("--rounds", type=int, default=1, help="how often each strategy migrates to and fro (--far)")
    parser.add_argument("--cluster", action="store_true", help="a region on a Spark cluster of 2 against local[2]")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of --cluster")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults go on, or the cut lasts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=("file", "nats"), default="file")
    parser.add_argument("--length", type=int, default=40, help="steps per script")
    parser.add_argument("--together", action="store_true", help="of faults, half of them two or three at once")
    asked = parser.parse_args()
    if asked.chaos:
        from bench.regions.chaos import WRONG, run

        scripts = run(asked.seconds, asked.seed, asked.store, asked.length, asked.together)
        wrong = [one for one in scripts if one["verdict"] != "equal" or any(one[name] for name in WRONG)]
        print(json.dumps({"scripts": len(scripts), "wrong": wrong}, indent=1))
        return
    if asked.far:
        from bench.regions import far

        with tempfile.TemporaryDirectory(prefix="godwit-far-") as folder:
            here, cells = machine(), list[dict[str, object]]()
            for cell in far.run(Path(folder), asked.cells, asked.rounds):
                cells.append(cell)
                save(RESULTS / "regions-far.json", {"machine": here, "cells": cells})  # (also if it is broken off)
        return
    if asked.cluster:
        from bench.regions.cluster import compared

        told = compared(asked.rows)
        save(RESULTS / "regions-cluster.json", {"machine": machine(), **told})
        print(json.dumps(told, indent=1))
        return
    from bench.regions.measure import both

    with tempfile.TemporaryDirectory(prefix="godwit-regions-") as folder:
        here, told = machine(), both(Path(folder), asked.seconds)
    save(RESULTS / "regions.json", {"machine": here, **told})
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
