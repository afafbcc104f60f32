"""All placement experiments: `python -m bench.placement` (or `make bench-placement`) writes docs/results/placement*.

`python -m bench.placement headline competitors` runs some of them and keeps the other sections as they are.
"""

from __future__ import annotations

import json
import sys
import time

from bench.placement import adaptation, beyond, competitors, headline, scaling, sensitivity
from bench.placement.common import FOLDER, RESULTS, machine, save, table
from godwit.placement.published.instances import data_folder


def headline_report() -> str:
    """The targets, hit or missed."""
    rows = []
    for each in headline.everything():
        print(json.dumps(each), flush=True)
        rows.append(each)
    save("headline", rows)
    verdict = {True: "met", False: "MISSED", None: ""}
    lines = [
        [
            r["experiment"].split("/")[1],
            r["ours"],
            r["target"],
            verdict[r["met"]],
            r["baseline"],
            r["ratio"],
            r["oracle"],
            r["note"],
        ]
        for r in rows
    ]
    head = ("figure", "ours", "target", "", "baseline", "ratio", "oracle", "what")
    return "## Targets\n\n" + table(head, lines)


SECTIONS = {
    "headline": headline_report,
    "adaptation": adaptation.report,
    "competitors": competitors.report,
    "scaling": scaling.report,
    "sensitivity": sensitivity.report,
    "beyond": beyond.report,
}

INTRODUCTION = """# Placement search

`python -m bench.placement` wrote this page; the numbers behind it are in placement/*.json. Instances: the published
RIoT workflows and trees (7, 15, 31 sites with measured operator latencies); 127 and 1,023 sites are the upper levels of
the published tree of 2,047. Where no latency table is published (127 sites and more), each cell is drawn (seed 5) from
what the operator measured on that kind of device in the published ones. In the four-dimensional mode the source stays
at its device, throughput follows the site's speed, and traffic counts Mb/s times hops. "Java artifact": the published
implementation, measured on a machine like this one with 2 threads; it does not run here.
"""


def main(wanted: list[str]) -> int:
    """Run the wanted sections (all without arguments) and put the page together."""
    unknown = [w for w in wanted if w not in SECTIONS]
    if unknown or not data_folder().is_dir():
        what = (
            f"unknown section {unknown[0]}; choose among {', '.join(SECTIONS)}"
            if unknown
            else f"no data in {data_folder()}"
        )
        print(what, file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in wanted or list(SECTIONS):
        started = time.perf_counter()
        (FOLDER / f"section_{name}.md").write_text(SECTIONS[name]())
        print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    parts = [FOLDER / f"section_{name}.md" for name in SECTIONS]
    body = "\n".join(p.read_text() for p in parts if p.is_file())
    about = ", ".join(f"{k} {v}" for k, v in machine().items())
    (RESULTS / "placement.md").write_text(f"{INTRODUCTION}\nMachine: {about}.\n\n{body}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
