"""Train cost models from a metrics log with Spark: the fleet's own log, the simulator's rows, or both.

    python -m godwit.engine.train_cost_models LOG OUT

LOG is a Parquet folder or a file of JSON lines; placement/metrics_log.py lists its columns.

Distributions are fitted group by group, the four regressors side by side, all as Spark tasks (applyInPandas). OUT
gets parametric.json and learned/, both with a version, and errors.json with the error on held-out rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.errors import DataError, GodwitError
from godwit.placement.cost_models.learned import (
    Dimension,
    HeldOutError,
    LearnedModel,
    from_bytes,
    to_bytes,
    train_dimension,
)
from godwit.placement.cost_models.metrics_log import COLUMNS, TARGETS, check_columns
from godwit.placement.cost_models.parametric import Fit, Group, ParametricModel, fit

#: rows a regressor learns from at most; more do not help trees of this size
LARGEST_SAMPLE = 200_000


def read_log(spark: SparkSession, path: str) -> DataFrame:
    """The log as a table of exactly the documented columns."""
    if not Path(path).exists() and "://" not in path:
        msg = f"there is no metrics log at {path}; give a Parquet folder or a file of JSON lines"
        raise DataError(msg)
    frame = spark.read.json(path) if path.endswith((".json", ".jsonl")) else spark.read.parquet(path)
    check_columns(frame.columns, path)
    frame = frame.select(*COLUMNS).dropna()
    if frame.isEmpty():
        msg = f"the metrics log {path} has no complete row; nothing can be learnt from it"
        raise DataError(msg)
    return frame


def _fit_group(rows: pd.DataFrame) -> pd.DataFrame:
    """One group's fits as JSON, so that the table has one simple schema."""
    out = []
    for what in ("latency_ms", "throughput_ktps", "restart_ms"):
        values = rows[what].dropna()
        if len(values):
            out.append(
                {
                    "operator": rows["operator"].iloc[0],
                    "kind": rows["kind"].iloc[0],
                    "platform_name": rows["platform_name"].iloc[0],
                    "what": what,
                    "fit": json.dumps(asdict(fit(values))),
                }
            )
    return pd.DataFrame(out, columns=["operator", "kind", "platform_name", "what", "fit"])


def train_parametric(log: DataFrame) -> ParametricModel:
    """One task a group; a row counts for its exact group and for the two wider ones it is the fallback of."""
    nothing = F.lit("")
    widths = F.array(
        F.struct(F.col("site_kind").alias("kind"), F.col("platform").alias("platform_name")),
        F.struct(nothing.alias("kind"), F.col("platform").alias("platform_name")),
        F.struct(nothing.alias("kind"), nothing.alias("platform_name")),
    )
    restart = F.when(F.col("moved_ms") > 0, F.greatest(F.lit(0.0), F.col("migration_ms") - F.col("moved_ms")))
    rows = log.withColumn("restart_ms", restart).withColumn("width", F.explode(widths))
    rows = rows.select("operator", "width.kind", "width.platform_name", "latency_ms", "throughput_ktps", "restart_ms")
    schema = "operator string, kind string, platform_name string, what string, fit string"
    fitted = rows.groupBy("operator", "kind", "platform_name").applyInPandas(_fit_group, schema).collect()
    return _assemble(fitted)


def _assemble(fitted: Iterable[Any]) -> ParametricModel:
    latency: dict[Group, Fit] = {}
    throughput: dict[Group, Fit] = {}
    restart: dict[str, Fit] = {}
    for row in fitted:
        raw = json.loads(row["fit"])
        found = Fit(raw["family"], tuple(raw["parameters"]), raw["log_likelihood"], raw["count"])
        group = (row["operator"], row["kind"], row["platform_name"])
        if row["what"] == "latency_ms":
            latency[group] = found
        elif row["what"] == "throughput_ktps":
            throughput[group] = found
        elif group[1:] == ("", ""):
            restart[group[0]] = found
    return ParametricModel(latency, throughput, restart)


def train_learned(log: DataFrame, seed: int = 0) -> LearnedModel:
    """One task a dimension."""
    count = log.count()
    sample = log if count <= LARGEST_SAMPLE else log.sample(fraction=LARGEST_SAMPLE / count, seed=seed)
    kinds, platforms = (
        {str(r[0]): i for i, r in enumerate(log.select(c).distinct().orderBy(c).collect())}
        for c in ("site_kind", "platform")
    )

    def train(rows: pd.DataFrame) -> pd.DataFrame:
        target = str(rows["target"].iloc[0])
        # partitions arrive in any order: sort, or the held-out rows would differ from run to run
        ordered = rows.drop(columns="target").sort_values(list(COLUMNS)).reset_index(drop=True)
        trained = train_dimension(target, ordered, kinds, platforms, seed)
        body, error = to_bytes(trained.regressor), json.dumps(asdict(trained.error))
        return pd.DataFrame({"target": [target], "body": [body], "error": [error]})

    spread = sample.withColumn("target", F.explode(F.array(*[F.lit(t) for t in TARGETS])))
    trained = spread.groupBy("target").applyInPandas(train, "target string, body binary, error string").collect()
    dimensions = {}
    for row in trained:
        regressor = from_bytes(bytes(row["body"]), f"what was trained for {row['target']}")
        dimensions[row["target"]] = Dimension(row["target"], regressor, HeldOutError(**json.loads(row["error"])))
    return LearnedModel({t: dimensions[t] for t in TARGETS}, kinds, platforms)


def train(spark: SparkSession, log: str, out: Path, seed: int = 0) -> dict[str, Any]:
    """Both models from one log; returns the held-out errors."""
    frame = read_log(spark, log).cache()
    out.mkdir(parents=True, exist_ok=True)
    train_parametric(frame).save(out / "parametric.json")
    learned = train_learned(frame, seed)
    learned.save(out / "learned")
    errors = {name: asdict(e) for name, e in learned.errors().items()}
    (out / "errors.json").write_text(json.dumps(errors, indent=1), encoding="utf-8")
    frame.unpersist()
    return errors


def main(arguments: list[str]) -> int:
    """Command line; see the top of the file."""
    if len(arguments) != 2:
        print("usage: python -m godwit.engine.train_cost_models LOG OUT", file=sys.stderr)
        return 2
    from godwit.engine.session import spark_session

    try:
        errors = train(spark_session("godwit-cost-models"), arguments[0], Path(arguments[1]))
    except GodwitError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    print(json.dumps(errors, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
