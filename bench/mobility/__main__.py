"""All mobility experiments: writes docs/results/mobility/*.json, scale.png and docs/results/mobility.md."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
from pyspark.sql import SparkSession

from bench._harness import machine
from bench.mobility.country import make_country
from bench.mobility.measure import spark_stage, tree_baseline
from bench.mobility.native import native_nearest
from bench.mobility.quick import _data, golden
from bench.mobility.whole import whole_build
from godwit.engine.session import spark_session

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path(__file__).parents[2] / "docs" / "results" / "mobility"
TOWERS = (100_000, 1_000_000, 5_000_000)
POSITIONS = (100_000, 1_000_000, 10_000_000)


def main() -> None:
    """Run the parts that are named (all if none is); each result is kept as soon as it is there."""
    OUT.mkdir(parents=True, exist_ok=True)
    spark = spark_session(app="godwit bench", cores=2, memory="2g")
    parts: dict[str, Callable[[Path], Any]] = {
        "scale": lambda work: scale(spark, work),
        "native": lambda work: native(spark, work),
        "golden": lambda _work: list(golden(_data())),
        "whole": lambda work: whole_build(spark, 5_000_000, 10_000_000, work),
    }
    with tempfile.TemporaryDirectory() as folder:
        spark_stage(spark, make_country(1_000, 50_000), Path(folder), 0.0)
        for part in sys.argv[1:] or parts:
            found = {"machine": machine(), "results": parts[part](Path(folder) / part)}
            (OUT / f"{part}.json").write_text(json.dumps(found, indent=1) + "\n")
    results = {
        part: json.loads((OUT / f"{part}.json").read_text()) for part in parts if (OUT / f"{part}.json").exists()
    }
    if "scale" in results:
        draw(results["scale"]["results"])
    (OUT.parent / "mobility.md").write_text(report(results))


def scale(spark: SparkSession, work: Path) -> list[dict[str, Any]]:
    """The attachment stage and the tree, for every size."""
    rows = []
    for towers in TOWERS:
        for positions in POSITIONS:
            country = make_country(towers, positions)
            ours, tree = spark_stage(spark, country, work, 0.0), tree_baseline(country)
            row = {"towers": towers, "ours": ours, "tree": tree, "load": round(os.getloadavg()[0], 1)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def native(spark: SparkSession, work: Path) -> dict[str, Any]:
    """Spark's own operators alone against the stage as it is, at a size both can bear."""
    country = make_country(1_000_000, 1_000_000)
    row = {"native": native_nearest(spark, country, work), "ours": spark_stage(spark, country, work, 0.0)}
    print(json.dumps(row), flush=True)
    return row


def draw(rows: list[dict[str, Any]]) -> None:
    """Seconds over positions, a line for each number of towers."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for colour, towers in zip(("C0", "C1", "C2"), TOWERS, strict=True):
        these = [row for row in rows if row["towers"] == towers]
        x = [row["ours"]["positions"] for row in these]
        axes.loglog(x, [row["ours"]["seconds"] for row in these], "o-", color=colour, label=f"{towers:,} towers")
        axes.loglog(x, [row["tree"]["seconds"] for row in these], "x--", color=colour)
    axes.set(xlabel="positions", ylabel="seconds", title="attachment stage on 2 cores (-), scipy cKDTree on 1 (--)")
    axes.legend()
    axes.grid(alpha=0.3, which="both")
    figure.savefig(OUT / "scale.png", dpi=120, bbox_inches="tight")


def report(results: dict[str, Any]) -> str:
    """The page of results, of the parts that were run."""
    lines = [
        "# Mobility: how fast trips become hand-overs",
        "",
        "`python -m bench.mobility [scale] [native] [golden] [whole]`, seed 11. Generated countries "
        "(bench/mobility/country.py), Spark with 2 GB of driver memory. `load` is the machine's: where it is above its "
        "number of cores, other work took its share, and processor time says more than the clock.",
        "",
    ]
    for part, write in (("scale", _scale), ("native", _native), ("whole", _whole), ("golden", _golden)):
        if part in results:
            here = results[part]["machine"]
            lines += [*write(results[part]["results"]), ""]
            lines += [
                f"({here['cores']} cores, {here['memory_gb']} GB, Python {here['python']}, load before "
                f"{here['load_before'][0]})",
                "",
            ]
    return "\n".join(lines)


def _scale(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## The attachment stage against a KD-tree",
        "",
        "Ours: from Parquet (segments of movement, towers) to counted changes, 0 m hysteresis, 2 cores. Baseline: "
        "scipy's cKDTree on one core, build and query, its positions and towers ready in memory (not timed), the "
        "quicker of plane and globe. `same`: both find the same hand-overs. Memory is the largest resident size of "
        "JVM / Python driver / Python workers together.",
        "",
        "| towers | positions | ours s | positions/s | hand-overs | hand-overs/s | tree s | tree / ours "
        "| ours cpu s | tree cpu s | memory MB | load | same |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours, tree = row["ours"], row["tree"]
        same = "yes" if ours["handovers"] == tree["handovers_at_0_m"] else "NO"
        lines.append(
            f"| {row['towers']:,} | {ours['positions']:,} | {ours['seconds']:.1f} | {ours['positions_per_s']:,} "
            f"| {ours['handovers']:,} | {ours['handovers_per_s']:,} | {tree['seconds']:.1f} "
            f"| {tree['seconds'] / ours['seconds']:.2f} | {ours['cpu_s']} | {tree['cpu_s']} "
            f"| {ours['peak_jvm_mb']} / {ours['peak_driver_mb']} / {ours['peak_workers_mb']} | {row['load']} | {same} |"
        )
    large = [row for row in rows if row["ours"]["positions"] >= 10_000_000]
    met = [row["tree"]["seconds"] >= row["ours"]["seconds"] for row in large]
    growth = [
        f"{b['ours']['seconds'] / a['ours']['seconds']:.1f}" for a, b in pairwise(rows) if a["towers"] == b["towers"]
    ]
    return [
        *lines,
        "",
        f"Target: at least as fast as the tree from 10^7 positions on: met for {sum(met)} of {len(met)} sizes. "
        f"Ten times the positions take {', '.join(growth)} times as long (in the order of the table).",
        "",
        "![seconds over positions](mobility/scale.png)",
        "",
    ]


def _native(results: dict[str, Any]) -> list[str]:
    alone, ours = results["native"], results["ours"]
    return [
        "## Spark's own operators alone",
        "",
        "A join by cell (bench/mobility/native.py), 10^6 towers and positions: "
        f"{alone['seconds']:.1f} s and {alone['positions_found']:,} positions answered, against "
        f"{ours['seconds']:.1f} s for all of them. That is why handovers.py sends segments to Python.",
    ]


def _whole(whole: dict[str, Any]) -> list[str]:
    return [
        "## The whole command, files to files",
        "",
        f"{whole['towers']:,} towers (CSV), {whole['trips']:,} trips, {whole['positions']:,} positions, "
        f"{whole['handovers']:,} hand-overs, {whole['serving_towers']:,} serving towers in {whole['seconds']} s "
        f"({', '.join(f'{k} {v} s' for k, v in whole['stage_seconds'].items())}; {whole['cpu_s']} s of processor time) "
        f"with spark.driver.memory {whole['driver_memory']}. Peak resident memory: JVM {whole['peak_jvm_mb']} MB, "
        f"Python driver {whole['peak_driver_mb']} MB, Python workers {whole['peak_workers_mb']} MB together.",
    ]


def _golden(figures: list[dict[str, Any]]) -> list[str]:
    rows = [
        f"| {g['experiment'].split('/')[1]} | {g['ours']} | {g['baseline']} | {'yes' if g['met'] else 'NO'} |"
        for g in figures
    ]
    head = ["| real trip | hand-overs at 50 m | published | within 10 % |", "|---|---|---|---|"]
    return ["## Real trips", "", *head, *rows]


if __name__ == "__main__":
    main()
