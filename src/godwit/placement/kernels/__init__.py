"""The numeric core, compiled by numba."""
