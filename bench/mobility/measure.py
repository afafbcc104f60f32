"""One measurement: the attachment stage on Spark, and scipy's tree on one core for the nearest-tower part of it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from scipy.spatial import cKDTree

from bench._memory import peak_memory
from bench.mobility.country import Country, segments, write_parquet
from godwit.mobility.attach import TowerIndex
from godwit.mobility.geo import Ints, pack, to_xyz, unpack
from godwit.mobility.handovers import attachment_changes, count_positions
from godwit.mobility.motion import sample

STEP_MS = 1000


def spark_stage(spark: SparkSession, country: Country, folder: Path, hysteresis_m: float) -> dict[str, float]:
    """Seconds and counts of the attachment stage, from Parquet to counted changes."""
    write_parquet(country, folder)
    with peak_memory() as peak:
        start = time.perf_counter()
        towers = spark.read.parquet(str(folder / "towers.parquet"))
        moves = spark.read.parquet(str(folder / "segments.parquet"))
        found = attachment_changes(towers, len(country.tower_lat), moves, step_ms=STEP_MS, hysteresis_m=hysteresis_m)
        kinds = found.agg(
            sf.count("*").alias("changes"), sf.count_if(sf.expr("before IS NOT NULL AND after IS NOT NULL")).alias("h")
        ).collect()[0]
        took = time.perf_counter() - start
    positions = count_positions(moves, STEP_MS)
    return {
        "seconds": round(took, 3),
        "positions": positions,
        "handovers": kinds["h"],
        "positions_per_s": round(positions / took),
        "handovers_per_s": round(kinds["h"] / took),
        "cpu_s": round(peak.cpu_s, 1),
        "peak_jvm_mb": round(peak.jvm),
        "peak_driver_mb": round(peak.driver),
        "peak_workers_mb": round(peak.workers),
    }


def tree_baseline(country: Country) -> dict[str, float]:
    """scipy's tree on one core. Its positions and towers lie ready in memory: neither is timed.

    It gets the quicker of the two ways to use it: points on a plane (one latitude for the whole country, so not the
    true nearest tower everywhere) and on the globe. Hand-overs are counted from the one on the globe.
    """
    at = sample(segments(country), STEP_MS)
    # The same rounding to 1e-7 degrees and the same one tower a place as the pipeline has.
    lat, lon = unpack(TowerIndex.of(pack(country.tower_lat, country.tower_lon)).places)
    scale = np.cos(np.radians(51.0))
    plane_s, plane_cpu, _ = _query(np.column_stack((lon * scale, lat)), np.column_stack((at.lon * scale, at.lat)))
    globe_s, globe_cpu, near = _query(to_xyz(lat, lon), to_xyz(at.lat, at.lon))
    moved = int(np.count_nonzero((near[1:] != near[:-1]) & (at.owner[1:] == at.owner[:-1])))
    return {
        "seconds": round(min(plane_s, globe_s), 3),
        "cpu_s": round(min(plane_cpu, globe_cpu), 1),
        "plane_seconds": round(plane_s, 3),
        "globe_seconds": round(globe_s, 3),
        "handovers_at_0_m": moved,
    }


def _query(towers: np.ndarray, points: np.ndarray) -> tuple[float, float, Ints]:
    start, cpu = time.perf_counter(), time.process_time()
    near = cKDTree(towers, leafsize=16, balanced_tree=False).query(points, workers=1)[1]
    return time.perf_counter() - start, time.process_time() - cpu, np.asarray(near, dtype=np.int64)
