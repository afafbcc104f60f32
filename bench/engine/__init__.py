"""The engine's bench: throughput against plain Spark, many queries, start of a query, growth of state, memory."""
