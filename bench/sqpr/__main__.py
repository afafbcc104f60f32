"""All experiments of the admission planner: `python -m bench.sqpr [experiment ...]`, one core, about twenty minutes.

Each experiment writes docs/results/sqpr/<experiment>.json; the report docs/results/sqpr.md and the plots are made from
whatever has been run.
"""

from __future__ import annotations

import sys
import time

from bench.sqpr import admissions, cluster, exact_model, literal_model, report, scaling

EXPERIMENTS = {
    "admissions": admissions.run,
    "exact": exact_model.run,
    "literal": literal_model.run,
    "overlap": scaling.overlap,
    "hosts": scaling.hosts,
    "arity": scaling.arity,
    "batches": scaling.batches,
    "cluster": cluster.run,
}


def main(names: list[str]) -> None:
    """Run the named experiments, or all of them, then write the report."""
    unknown = [name for name in names if name not in EXPERIMENTS and name != "report"]
    if unknown:
        msg = f"unknown experiment {unknown[0]}; known: {', '.join(EXPERIMENTS)}, report"
        raise SystemExit(msg)
    for name in names or EXPERIMENTS:
        if name != "report":
            start = time.perf_counter()
            EXPERIMENTS[name]()
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    report.write()


if __name__ == "__main__":
    main(sys.argv[1:])
