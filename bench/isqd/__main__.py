"""The published ISQD experiments, all strategies; writes docs/results/isqd.md, isqd/cells/*.json and pictures.

python -m bench.isqd                    # everything, in short cuts; cells that are done already are passed over
python -m bench.isqd 7-8 10             # some figures: 7-8, 7-8-full, 9, 10, 7.2.3, state, control_plane
python -m bench.isqd 9 --full-length    # 20 s calm + 120 s of changes + 10 s calm, as published: hours
python -m bench.isqd --again            # cells that are done are run again
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from typing import Any

from bench._harness import RESULTS, describe, say
from bench.isqd.cells import FULL_LENGTH, all_cells
from bench.isqd.inputs import Cut, data
from bench.isqd.plots import draw
from bench.isqd.report import TITLES, moved, page
from bench.isqd.run import OUT, run_cells
from bench.isqd.workload import RATE

SHORT, FULL = Cut(3.0, 10.0, 1.0), Cut()
STATE, CONTROL = "state", "control_plane"
STATES = {
    "state_by_size": "Figure 11: how fast state of a size moves, over two nodes between",
    "state_by_hops": "Figure 12: how fast 32 MB of state move, by the nodes between",
}


def main() -> int:
    asked = _parser().parse_args()
    wanted = asked.figures or [*TITLES, STATE, CONTROL]
    if not data().is_dir():
        print(f"{data()} is missing: the published inputs are read from there (GODWIT_DATA names another place)")
        return 1
    for cell in all_cells():
        if cell.figure in wanted:
            if asked.again:
                (OUT / f"{cell.name}.json").unlink(missing_ok=True)
            whole = asked.full_length or cell.figure == FULL_LENGTH
            run_cells([cell], FULL if whole else SHORT, asked.rate)
            write()  # after each, so that a run that is cut short leaves what it has
    if STATE in wanted and importlib.util.find_spec("bench.isqd.state_movement") is not None:
        subprocess.run([sys.executable, "-m", "bench.isqd.state_movement"], check=False)
    if CONTROL in wanted:
        subprocess.run([sys.executable, "-m", "bench.control_plane"], check=False)
    write()
    return 0


def write() -> None:
    """The page and the pictures from all cells that have been kept."""
    order = {cell.name: i for i, cell in enumerate(all_cells())}
    found = sorted((p for p in OUT.glob("*.json") if p.stem in order), key=lambda p: order[p.stem])
    results: list[dict[str, Any]] = [json.loads(path.read_text()) for path in found]
    if not results:
        return
    pictures = draw(results, RESULTS / "isqd")
    text = page(results) + "\n".join(f"![{name}](isqd/{name})" for name in pictures) + "\n"
    text += "".join(_state(name) for name in ("state_by_size", "state_by_hops"))
    text += "\nControl-plane time at scale: [numbers](isqd/control_plane.json), [plot](isqd/control_plane.png).\n"
    (RESULTS / "isqd.md").write_text(text)
    say(f"{len(results)} cells in docs/results/isqd.md")


def _state(name: str) -> str:
    """Figure 11 or 12, if it has been run."""
    path = RESULTS / "isqd" / f"{name}.json"
    if not path.exists():
        return ""
    known = json.loads(path.read_text())
    how = f"`python -m bench.isqd.state_movement {known['options']}`; {describe(known['machine'])}."
    lines = ["", f"## {STATES[name]}", "", how, ""]
    return "\n".join([*lines, *moved(known["measured"]), "", f"![{name}](isqd/{name}.png)", ""])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.isqd")
    parser.add_argument("figures", nargs="*", choices=[[], *TITLES, STATE, CONTROL], help="default: all")
    parser.add_argument("--full-length", action="store_true", help="the published 150 s a cell")
    parser.add_argument("--again", action="store_true", help="run what is done already, too")
    parser.add_argument("--rate", type=int, help=f"rows a second and source (published: {RATE})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
