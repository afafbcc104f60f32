"""What columns the rows of an operator have, and of which types: asked of Spark, over streams without rows."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from godwit.model.joins import OuterJoin
from godwit.model.plan import (
    PARAMETER,
    QUERY,
    Aggregate,
    Column,
    Filter,
    Join,
    Partial,
    Project,
    Query,
    Scan,
    Union,
)
from godwit.operators.aggregate import merge, results
from godwit.operators.partial import partial


def row_columns(session: SparkSession, query: Query, index: int) -> tuple[Column, ...]:
    """`session`: streams are views in it (`Analyst.session`)."""
    operator = query.shape.plan.operators[index]
    if isinstance(operator, OuterJoin):
        return operator.columns
    schema = _rows(session, query, index).schema
    return tuple(Column(f.name, f.dataType.simpleString()) for f in schema.fields if not _added(f.name))


def _added(name: str) -> bool:
    return name == QUERY or name.startswith(PARAMETER)


def _rows(session: SparkSession, query: Query, index: int) -> DataFrame:
    operator = query.shape.plan.operators[index]
    below = [_rows(session, query, child) for child in operator.inputs]
    match operator:
        case Scan():
            columns = (F.col(f"`{name}`").alias(f"{operator.alias}__{name}") for name in operator.columns)
            literals = (
                F.expr(f"CAST({value} AS {parameter.type})").alias(parameter.name)
                for parameter, value in zip(query.shape.parameters, query.parameters, strict=True)
            )
            return session.table(operator.stream).select(F.lit("").alias(QUERY), *columns, *literals)
        case Filter():
            return below[0]
        case Project():
            kept = [name for name in below[0].columns if _added(name)]
            return below[0].selectExpr(*kept, *(f"{c.sql} AS `{c.name}`" for c in operator.columns))
        case Union():
            return reduce(DataFrame.unionByName, below)
        case Join():
            return below[0].crossJoin(below[1].drop(*(name for name in below[1].columns if _added(name))))
        case Partial():
            return partial(below[0], operator)
        case Aggregate():
            return results(merge(below[0], operator), operator)
    msg = f"the columns of {operator.describe()} are not asked for"
    raise AssertionError(msg)
