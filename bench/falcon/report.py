"""docs/results/falcon.md from what is kept in docs/results/falcon/*.json, with the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench._harness import RESULTS, describe, table
from bench.falcon.plots import draw
from bench.falcon.run import FIGURES, OWN, kept, module
from bench.falcon.targets import rows

HEAD = (
    "varies",
    "workload",
    "strategy",
    "disruption ms",
    "jitter ms (p99)",
    "duration ms",
    "bytes",
    "steady ms",
    "oracle",
)
#: what other processes may use of the cores
MOST_CPU = 25.0
HOW = """`make bench-falcon` (`python -m bench.falcon [FIGURE] [--only WORKLOAD] [--rounds N] [--full]`). Measures as
the paper has them, of `bench/falcon/measures.py`. Without `--full` it is scaled down: 500 rows/s instead of 1,500,
fewer values of what is varied, four migrations by each strategy. The strategies of a cell take turns within one run,
in an order by chance, after each was played once without counting; what is steady is measured in all the pauses
between migrations. All regions run in one process; the latency of links is emulated by `godwit.region.link_delays`:
messages, epochs and reports between edge and cloud are seen half a round trip later (80 ms round trip unless it is
varied). Latency is from the push of a row to the callback of the first result that answers it. Row `none` migrates
nothing: it shows what the measures say of the machine's own noise. Every value is the mean of a strategy's migrations,
there and back. How the workloads differ from the published ones stands in `bench/falcon/questions.py`. A strategy that
refuses an operator is listed with its reason.

What the baselines pay, and what they do not: `partial-pause` has every region stop the keys and say so to the control
plane (a round trip) before the state goes. `full-restart` stops the whole query, moves the state and lets it go on,
each acknowledged by all regions; it starts no process and writes no savepoint, so it takes tenths of a second where
Flink takes seconds. `on-demand` fetches each key (of a range: each bucket) when a row of it waits. `hot-backup` takes
over a replica that stands at the destination since the warm-up and is refreshed every 500 ms. Tuples do not go over a
broker in the cloud, as they do in the published baselines. State is as small as in the paper (32 B per key of TM).

Source mobility (figure 9) differs from Section III-F in this: a key goes up to the lowest site above both edges, not to
the root; the policy sees rows, attachments and notifications, where the paper's root sees tuples; the reordering buffer
of a ping-pong (100 ms) is where rows enter, not at the instance; only one that still copies can be cancelled."""


def write() -> None:
    known = {figure: kept(figure) for figure in FIGURES}
    known = {figure: found for figure, found in known.items() if found}
    if not known:
        return
    lines = ["# Keys that migrate: Falcon's experiments", "", HOW, "", "## Targets", ""]
    lines += table(("figure", "ours", "beside", "target", "met"), rows(known))
    for figure, found in known.items():
        picture = draw(figure, found)
        lines += [f"## {module(figure).TITLE}", "", *_where(found), *_rows(figure, found)]
        lines += [f"![{figure}](falcon/{picture})", ""] if picture else []
    (RESULTS / "falcon.md").write_text("\n".join(lines))


def _where(found: Sequence[dict[str, Any]]) -> list[str]:
    """Cells may be of different runs: each says how it was made."""
    runs: dict[str, dict[str, None]] = {}
    for one in found:
        told = f"{one['cut']['rate']:g} rows/s, {2 * one['cut']['rounds']} migrations by each strategy"
        runs.setdefault(f"{told}; {describe(one['machine'])}.", {})[str(one["cell"]["x"])] = None
    lines = [line for how, cells in runs.items() for line in (f"{', '.join(cells)}: {how}", "")]
    busiest = max(one["machine"].get("others_cpu_percent", 0.0) for one in found)
    if busiest > MOST_CPU:
        lines += [
            f"**The machine was busy with other things (up to {busiest:g} % of its cores): times below show no more",
            "than that the experiment runs; only the oracle, the bytes and the refusals count.**",
            "",
        ]
    return lines


def _rows(figure: str, found: Sequence[dict[str, Any]]) -> list[str]:
    if figure in OWN:
        names = sorted({n for one in found for n in one} - {"cell", "cut", "machine", "over_time", "bandwidth"})
        return table(
            ("varies", "workload", *names),
            [[*_place(one)[:2], *(_cell(one.get(n, "")) for n in names)] for one in found],
        )
    extra = [name for name in ("kept_bytes",) if any(name in one for one in found)]
    return table((*HEAD, *extra), [[*_row(one), *(one.get(name, "") for name in extra)] for one in found])


def _cell(value: Any) -> str:
    return " ".join(str(value).split())


def _place(one: dict[str, Any]) -> list[Any]:
    return [one["cell"][part] for part in ("x", "workload", "strategy")]


def _row(one: dict[str, Any]) -> list[Any]:
    if "refused" in one or "failed" in one:
        return [
            *_place(one),
            "refused: " + one["refused"] if "refused" in one else "failed: " + one["failed"],
            *[""] * 5,
        ]
    steady = one["steady"]
    measured = [one[name] for name in ("disruption_ms", "jitter_ms", "duration_ms", "bytes")]
    return [*_place(one), *measured, f"{steady['mean_ms']} +- {steady['sigma_ms']}", _cell(one["oracle"])]
