"""The whole command on files of a country's size: towers.csv and gtfs/ in, trace and topology out, 2 GB of driver."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench._memory import peak_memory
from bench.mobility.country import make_country, write_files
from godwit.mobility.gtfs import Slot
from godwit.mobility.pipeline import Request, build


def _make(towers: int, positions: int, folder: Path) -> None:
    write_files(make_country(towers, positions), folder)


def whole_build(spark: SparkSession, towers: int, positions: int, folder: Path) -> dict[str, Any]:
    """Seconds of each stage, peak memory and what came out."""
    # In a process of its own, or the driver's memory would be that of the inputs' maker.
    maker = multiprocessing.get_context("spawn").Process(target=_make, args=(towers, positions, folder))
    maker.start()
    maker.join()
    hour = 3_600_000
    slot = Slot("monday", 8 * hour, 9 * hour)
    stages: dict[str, float] = {}
    begun = time.perf_counter()

    def stage(name: str) -> None:
        stages[name] = time.perf_counter() - begun

    with peak_memory() as peak:
        summary = build(spark, Request(folder / "towers.csv", folder / "gtfs", slot, folder / "out"), stage)
    took = time.perf_counter() - begun
    ends = [*list(stages.values())[1:], took]
    return {
        "towers": towers,
        "positions": summary.positions,
        "trips": summary.devices,
        "handovers": summary.handovers,
        "serving_towers": summary.serving_sites,
        "seconds": round(took, 1),
        "cpu_s": round(peak.cpu_s, 1),
        "stage_seconds": {name: round(end - start, 1) for (name, start), end in zip(stages.items(), ends, strict=True)},
        "driver_memory": spark.sparkContext.getConf().get("spark.driver.memory"),
        "peak_jvm_mb": round(peak.jvm),
        "peak_driver_mb": round(peak.driver),
        "peak_workers_mb": round(peak.workers),
    }
