"""docs/results/engine.md and the plots, from the JSON files: whatever experiments have been run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

from bench._harness import describe, table
from bench.engine.data import SEED

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def write(out: Path) -> None:
    """The page beside the folder, and the plots in it."""
    found = {file.stem: json.loads(file.read_text()) for file in sorted(out.glob("*.json"))}
    lines = ["# The engine against plain Spark", ""]
    for name, section in SECTIONS.items():
        if name in found:
            result = found[name]
            lines += [f"## {section.title}", "", f"`python -m bench.engine {name}`, seed {SEED}; "]
            lines[-1] += f"{describe(result['machine'])}; took {result['seconds']:.0f} s."
            lines.append("")
            failed = result.get("failure")
            lines += [f"FAILED: {failed}", ""] if failed else section.text(result["result"], out)
    (out.parent / "engine.md").write_text("\n".join(lines).rstrip() + "\n")


class Section:
    def __init__(self, title: str, text: Any) -> None:
        self.title, self.text = title, text


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"


def _memory(memory: dict[str, int]) -> str:
    return f"{memory['jvm_mb']:,} / {memory['python_mb']:,}"


def _throughput(results: list[dict[str, Any]], out: Path) -> list[str]:
    rows = []
    for result in results:
        h = result["headline"]
        rows.append(
            (
                h["experiment"].removeprefix("engine/"),
                f"{h['ours']:,}",
                f"{h['baseline']:,}",
                f"{h['ratio']:.2f}x",
                f"{h['target']}x",
                _verdict(h["met"]),
                h["oracle"],
                _memory(result["memory"]),
            )
        )
    names = [r[0] for r in rows]
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.bar([k - 0.2 for k in range(len(rows))], [r["headline"]["ours"] for r in results], 0.4, label="godwit")
    axes.bar(
        [k + 0.2 for k in range(len(rows))], [r["headline"]["baseline"] for r in results], 0.4, label="plain Spark"
    )
    axes.set(ylabel="rows a second", yscale="log", xticks=range(len(rows)), xticklabels=names)
    axes.legend()
    _keep(figure, out / "throughput.png")
    runs = [
        (name, r["engine"], f"{r['rows']:,}", r["seconds"], f"{r['rows_per_s']:,}", r["cpu_s"], r["batches"])
        for name, result in zip(names, results, strict=True)
        for r in result["runs"]
    ]
    return [
        "Recorded Parquet files, replayed in micro-batches of the same size by a fleet (exactly-once commits, a clock "
        "for each of 64 devices on 16 sites, deployment tables) and by plain Structured Streaming (file source, its "
        "own watermark, Parquet sink, `availableNow`, the better of both state stores), in turns, in one session. "
        "`oracle`: the results have the same number of rows and the same checksum. Of many keys and the join "
        "the slower state store gets less of the rows, and so do we once more beside it; the "
        "times of the last micro-batches are in engine/throughput.json.",
        "",
        *table(
            ["workload", "ours rows/s", "native rows/s", "ratio", "target", "", "oracle", "peak MB JVM / Python"], rows
        ),
        *table(["workload", "engine", "rows", "s", "rows/s", "processor s", "micro-batches"], runs),
        "![rows a second](engine/throughput.png)",
        "",
    ]


def _many_queries(result: dict[str, Any], out: Path) -> list[str]:
    ours, native = result["ours"], result["native"]
    cases = ours["cases"]
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.loglog([c["queries"] for c in cases], [c["median_ms"] for c in cases], "o-", label="godwit, all queries")
    levels = native["levels"]
    axes.loglog([n["queries"] for n in levels], [1000 * n["worst_s"] for n in levels], "x--", label="native, slowest")
    axes.set(xlabel="queries", ylabel="ms a micro-batch")
    axes.legend()
    _keep(figure, out / "many_queries.png")
    head = ["queries", "median ms", "p95 ms", "results"]
    rows = [[c["queries"], c["median_ms"], c["p95_ms"], f"{c['results']:,}"] for c in cases]
    ramp = ", ".join(f"{n['queries']}: {n['worst_s']} s" for n in levels)
    ratio = ours["ratio_10_to_most"]
    return [
        f"2,000 devices on 1,000 sites, {cases[0]['rows_a_batch']:,} rows (5 s of event time) a micro-batch.",
        "",
        *table(head, rows),
        f"From 10 to {cases[-1]['queries']:,} queries: {ratio}x; target at most 3x: "
        f"{_verdict(ratio is not None and ratio <= 3)}. Same results: {ours['same_results']}. Peak MB JVM / Python: "
        f"{_memory(ours['memory'])}.",
        "",
        f"Native streaming queries (1,000 rows a second each): the machine holds {native['held']} before a micro-batch "
        f"takes longer than {native['limit_s']:g} s (tried up to {native['at_most']}). Slowest micro-batch: {ramp}. "
        f"Peak MB JVM / Python: {_memory(native['memory'])}.",
        "",
        "![micro-batch time over queries](engine/many_queries.png)",
        "",
    ]


def _start_latency(r: dict[str, Any], out: Path) -> list[str]:
    return [
        f"{len(r['micro_batches_to_answer'])} queries of a known shape, submitted while 20 others run: an answer after "
        f"{r['micro_batches_to_answer']} micro-batches (that began after it); target at most 2: "
        f"{_verdict(r['met_start'])}. A submission takes {r['submit_ms_median']} ms (median).",
        "",
        *table(
            ["latency of the others", "before ms", "while they come ms"],
            [
                ["p50", r["p50"]["before_ms"], r["p50"]["during_ms"]],
                ["p95", r["p95"]["before_ms"], r["p95"]["during_ms"]],
            ],
        ),
        f"Undisturbed (p95 within {r['tolerance']}x; {r['micro_batches'][0]} and {r['micro_batches'][1]} "
        f"micro-batches): {_verdict(r['met_p95'])}. Peak MB JVM / Python: {_memory(r['memory'])}.",
        "",
    ]


def _state_growth(result: dict[str, Any], out: Path) -> list[str]:
    figure, axes = plt.subplots(figsize=(7, 4))
    lines = [
        "Micro-batches (aggregate: 50,000 rows, join: 2,000) on a state of the size said; nothing closes or dies.",
        "",
    ]
    for name, what in (("aggregate", "keys"), ("join", "rows")):
        levels = result[name]["levels"]
        axes.loglog([n[what] for n in levels], [n["median_ms"] for n in levels], "o-", label=f"{name}, {what} in state")
        rows = [
            [f"{n[what]:,}", n["median_ms"], n["worst_ms"], n["fill_median_ms"], n["fill_worst_ms"]] for n in levels
        ]
        lines += table([f"{name}: {what}", "median ms", "worst ms", "filling: median ms", "worst ms"], rows)
        growth = levels[-1]["median_ms"] / levels[0]["median_ms"]
        lines += [f"From {levels[0][what]:,} to {levels[-1][what]:,} {what}: {growth:.1f}x. ", ""]
        lines[-2] += f"Peak MB JVM / Python: {_memory(result[name]['memory'])}."
    aggregate = result["aggregate"]
    lines += [
        f"All keys closing at once took {aggregate['closing_s']} s; results {aggregate['oracle']} to what was sent."
    ]
    axes.set(xlabel="size of the state", ylabel="ms a micro-batch")
    axes.legend()
    _keep(figure, out / "state_growth.png")
    return [*lines, "", "![micro-batch time over state](engine/state_growth.png)", ""]


def _keep(figure: Any, path: Path) -> None:
    figure.axes[0].grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


SECTIONS = {
    "throughput": Section("Throughput", _throughput),
    "many_queries": Section("Many queries", _many_queries),
    "start_latency": Section("A query's start", _start_latency),
    "state_growth": Section("Growth of state", _state_growth),
}
