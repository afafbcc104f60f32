"""Falcon's experiments; writes docs/results/falcon.md, falcon/*.json and pictures.

python -m bench.falcon                         # every figure, in short
python -m bench.falcon fig8 --seconds 30       # one, with so many seconds for each migration and for the calm before
python -m bench.falcon fig8 --only tm falcon   # of some workloads or strategies
python -m bench.falcon --full                  # as published: 60 s of calm, 1,500 rows a second, six migrations a cell
python -m bench.falcon --report                # the page from what is kept
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")

from bench.falcon.play import Cut
from bench.falcon.report import write
from bench.falcon.run import CELLS, OWN, run

FULL = Cut(warm_s=10.0, calm_s=60.0, moves=6, after_s=8.0, rate=1500.0)
FIGURES = ("fig8", "fig9", *CELLS[1:], *OWN[1:])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.falcon", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figures", nargs="*", choices=[[], *FIGURES], help="default: all")
    parser.add_argument("--full", action="store_true", help="as published")
    parser.add_argument("--seconds", type=float, help="of calm, and for each migration")
    parser.add_argument("--rate", type=float, help="rows a second and source")
    parser.add_argument("--only", nargs="*", default=(), help="workloads or strategies")
    parser.add_argument("--report", action="store_true", help="run nothing")
    asked = parser.parse_args()
    cut = FULL if asked.full else Cut()
    if asked.seconds:
        cut = replace(cut, calm_s=asked.seconds, after_s=max(asked.seconds, 4.0))
    cut = replace(cut, rate=asked.rate or cut.rate)
    for figure in () if asked.report else asked.figures or FIGURES:
        run(figure, cut, short=not asked.full, only=tuple(asked.only))
        write()  # after each, so that a run that is cut short leaves what it has
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
