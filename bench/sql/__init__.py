"""SQL that streaming users write: Nexmark's queries and windows, beside plain Spark."""
