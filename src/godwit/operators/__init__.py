"""Operators: DataFrame in, DataFrame out, native Spark expressions only. One operator a file."""
