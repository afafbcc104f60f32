"""The data plane: everything that touches Spark."""
