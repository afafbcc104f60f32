"""A simulator without Spark: the real coordinator, clocks and hand-over, regions in memory, random schedules."""
