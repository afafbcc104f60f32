"""Where moving devices are attached over time: from real timetables and base stations, or made up from a seed.

trace.py                what everything here ends in, and its file; nebula.py: NebulaStream's files
attach.py, motion.py    segments of movement -> positions -> nearest tower with hysteresis (numpy, scipy, numba)
hierarchy.py            serving towers -> a topology: edge sites, fog sites, one cloud, regions; summary.py: figures
ring.py city.py field.py   the synthetic twin; twin.py is what they share
payloads.py             what the devices send
towers.py gtfs.py tracks.py segments.py grid.py handovers.py output.py pipeline.py   the pipeline on Spark

Only the last line imports pyspark, so a demo can make its world without a JVM.
"""
