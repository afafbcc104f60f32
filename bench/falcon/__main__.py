"""Falcon's experiments; writes docs/results/falcon.md, falcon/*.json and pictures.

python -m bench.falcon                    # every figure, scaled down: about 25 minutes
python -m bench.falcon fig8 --only tm nq7 # one figure, of some workloads
python -m bench.falcon fig8 --rounds 5    # every strategy goes there and back five times
python -m bench.falcon --full             # as published: every value, 1,500 rows a second, 60 s of calm; hours
python -m bench.falcon --report           # the page from what is kept
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

from bench.falcon.report import write
from bench.falcon.run import FIGURES, run, warm
from bench.falcon.sending import Cut

FULL = Cut(warm_s=10.0, calm_s=60.0, rounds=5, rate=1500.0, busy_s=60.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.falcon", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figures", nargs="*", choices=[[], *FIGURES], help="default: all")
    parser.add_argument("--full", action="store_true", help="as published")
    parser.add_argument("--rounds", type=int, help="how often each strategy takes the keys there and back")
    parser.add_argument("--rate", type=float, help="rows a second and source")
    parser.add_argument("--only", nargs="*", default=(), help="workloads")
    parser.add_argument("--report", action="store_true", help="run nothing")
    asked = parser.parse_args()
    cut = FULL if asked.full else Cut()
    cut = replace(cut, rate=asked.rate or cut.rate, rounds=asked.rounds or cut.rounds)
    if not asked.report:
        warm()
    for figure in () if asked.report else asked.figures or FIGURES:
        run(figure, cut, short=not asked.full, only=tuple(asked.only))
        write()  # after each, so that a run that is cut short leaves what it has
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
