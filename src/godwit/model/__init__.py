"""Frozen values that everything else is written in. Standard library and networkx only; never pyspark."""
