"""The placement problem: values, files, constraints."""
