"""The headline figures, one JSON object per line: `python -m bench.quick [AREA] [--save]`.

Each area runs in a process of its own: a fresh Spark session, no other area's memory, and one that fails (or takes too
long) is reported as a figure that was not met, beside the others. An area is a package `bench.AREA` with a module
`quick` that has `figures()`; one that is not built yet prints nothing. `--save` also writes docs/results/quick.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench._harness import RESULTS, describe, machine, say, table

#: every area there is or will be
AREAS = (
    "core", "latency", "engine", "isqd", "mobility", "placement", "sqpr", "falcon", "plan", "sql", "service", "regions",
)  # fmt: skip
#: how long one area may take (seconds)
LIMIT = 180
#: a line has exactly these keys
KEYS = ("experiment", "ours", "baseline", "ratio", "target", "met", "oracle", "note")

Figure = dict[str, Any]


class UnknownAreaError(ValueError):
    """An area that is not in AREAS."""


def chosen(area: str | None) -> tuple[str, ...]:
    """The areas to run: the one that was named, or all."""
    if not area:
        return AREAS
    if area not in AREAS:
        msg = f"there is no bench area '{area}'; areas: {', '.join(AREAS)}"
        raise UnknownAreaError(msg)
    return (area,)


def is_built(area: str) -> bool:
    return importlib.util.find_spec(f"bench.{area}") is not None and (
        importlib.util.find_spec(f"bench.{area}.quick") is not None
    )


def line(area: str, figure: Mapping[str, Any]) -> Figure:
    """A figure in the one form that all areas have. Whoever found different rows has missed the target."""
    name = str(figure["experiment"])
    oracle = str(figure.get("oracle") or "n/a")
    agrees = oracle in ("equal", "n/a")
    note = str(figure.get("note") or "")
    values = {key: figure.get(key) for key in ("ours", "baseline", "ratio", "target")}
    met = figure.get("met", False)
    met = True if met is None else bool(met)  # a figure without a target cannot miss it
    return {
        "experiment": name if name.startswith(f"{area}/") else f"{area}/{name}",
        **values,
        "met": met and agrees,
        "oracle": oracle if agrees else "n/a",
        "note": note if agrees else f"ORACLE {oracle}; {note}",
    }


def run(area: str, limit: float = LIMIT, package: str = "") -> list[Figure]:
    """The figures of one area, from a process of its own, which ends with all that it has started."""
    program = (
        f"import json\nfrom {package or f'bench.{area}'}.quick import figures\n"
        "for f in figures(): print(json.dumps(f, default=str), flush=True)"
    )
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            output, said = process.communicate(timeout=limit)
            error = said.strip().splitlines()[-1:] if process.returncode else []
        except BaseException as cause:
            os.killpg(process.pid, signal.SIGKILL)  # its session: servers that it has started, too
            if not isinstance(cause, subprocess.TimeoutExpired):
                raise
            output, error = process.communicate()[0], [f"not finished after {limit:g} s"]
    found = [line(area, json.loads(text)) for text in output.splitlines() if text.startswith("{")]
    if error:
        found.append(line(area, {"experiment": "failed", "note": " ".join(error)[:300]}))
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.quick", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("area", nargs="?", help=f"one of {', '.join(AREAS)}; without it, all")
    parser.add_argument("--save", action="store_true", help="also write docs/results/quick.md")
    options = parser.parse_args(arguments)
    try:
        areas = chosen(options.area)
    except UnknownAreaError as error:
        print(error, file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # (so that an area's processes are ended, too)
    here = machine()
    figures = [figure for area in areas for figure in _one(area)]
    if options.save:
        (RESULTS / "quick.md").write_text(page(figures, describe(here)))
    return int(any(figure["experiment"].endswith("/failed") for figure in figures))


def _one(area: str) -> list[Figure]:
    """Run an area and print its lines."""
    if not is_built(area):
        say(f"{area}: not built yet")
        return []
    began = time.monotonic()
    found = run(area)
    for figure in found:
        print(json.dumps(figure), flush=True)
    say(f"{area}: {time.monotonic() - began:.0f} s")
    return found


def page(figures: Iterable[Figure], where: str) -> str:
    """All figures as one table; what missed its target stands out."""
    figures = list(figures)
    rows = [["**missed**" if f[n] is False else "" if f[n] is None else f[n] for n in KEYS] for f in figures]
    met = sum(figure["met"] for figure in figures)
    lines = ["# Headline figures", "", f"`python -m bench.quick --save`; {where}.", ""]
    lines += [f"{met} of {len(figures)} targets were met in this run.", ""]
    return "\n".join([*lines, *table(KEYS, rows)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
