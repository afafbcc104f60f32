"""The demo: trains on Berlin's ring, a dozen queries, three regions, and the same time with plain Spark queries.

world.py     the ring, its trains and what they send        queries.py   what is asked
ours.py      the fleet under the trace                      native_restart.py   plain Spark queries, restarted
meter.py     latency, rows and moved state as they come     view.py, report.py  what you see
"""
