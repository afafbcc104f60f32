"""The SQL front end: Spark SQL in, logical plans and shapes out. Pure: never imports pyspark."""

from godwit.sql.compile import compile_query

__all__ = ["compile_query"]
