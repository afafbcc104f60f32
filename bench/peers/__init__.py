"""Beside what users would pick instead: Apache Flink and plain Spark Structured Streaming, same rows, same SQL."""
