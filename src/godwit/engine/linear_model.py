"""A linear regression by Spark ML, over a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.sql import DataFrame


def fitted(rows: DataFrame, features: Sequence[str], label: str) -> tuple[float, list[float]]:
    """(intercept, a coefficient for each feature) with the least squared error."""
    vectors = VectorAssembler(inputCols=list(features), outputCol="features").transform(rows)
    model = LinearRegression(featuresCol="features", labelCol=label, solver="normal").fit(vectors)
    return float(model.intercept), [float(value) for value in model.coefficients.toArray()]
