"""The SQL front end: Spark SQL in, logical plans and shapes out. Pure: never imports pyspark."""

from godwit.sql.compile import compile_query
from godwit.sql.fluent import Builder, counting, hopping, session, stream, tumbling
from godwit.sql.orders import orders

__all__ = ["Builder", "compile_query", "counting", "hopping", "orders", "session", "stream", "tumbling"]
