"""Asks Spark what a query's columns are: the last check before a query is accepted.

Streams are empty views in a session of their own, so that names never clash with the user's tables.
"""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from godwit.engine.spark_faults import mismatch
from godwit.errors import TypeMismatchError
from godwit.ingest.schema import Schema
from godwit.model.plan import ARRIVED, Column, Query, Stream, arrival_view


class Analyst:
    """Knows the declared streams; gives a query's output types or says what does not fit."""

    def __init__(self, spark: SparkSession) -> None:
        #: streams are views in it, and a program's functions are known
        self.session = spark.newSession()
        self._declared: set[str] = set()

    def declare(self, stream: Stream) -> Schema:
        """Parse a stream's schema and make it known."""
        try:
            schema = Schema(stream)
        except PySparkException as error:
            columns = ", ".join(f"{c.name} {c.type}" for c in stream.columns)
            msg = f"the schema of stream '{stream.id}' is not one that Spark knows"
            raise TypeMismatchError(msg, place=columns, remedy=_first_line(error)) from error
        self.session.createDataFrame([], schema.spark).createOrReplaceTempView(stream.id)
        self._declared.add(stream.id)
        return schema

    def output(self, query: Query) -> tuple[Column, ...]:
        """The result's columns with their types."""
        return self.columns(query.oracle_sql, query.sql)

    def columns(self, sql: str, written: str = "") -> tuple[Column, ...]:
        """The same of a query as Spark's own SQL; `written`: as the user has it."""
        views = {arrival_view(name, late): name for name in self._declared for late in (False, True)}
        for view in (view for view in views if view in sql):
            rows = self.session.table(views[view]).selectExpr("*", f"CAST(NULL AS timestamp) AS {ARRIVED}")
            rows.createOrReplaceTempView(view)
        try:
            schema = self.session.sql(sql).schema
        except PySparkException as error:
            raise mismatch(str(error), written or sql) from error
        return tuple(Column(field.name, field.dataType.simpleString()) for field in schema.fields)


def _first_line(error: PySparkException) -> str:
    text = str(error).strip().splitlines()[0]
    return re.sub(r"\s*SQLSTATE: \w+", "", text)
