"""The demo: trains on Berlin's ring, a dozen queries, three regions, and the same time with plain Spark queries.

world.py     the ring, its trains and what they send        queries.py   what is asked
ours.py      the fleet under the trace                      native.py    plain Spark queries, restarted at hand-overs
due.py       when an answer can be known at the earliest    answers.py   its latency: what it waits for, what we add
moves.py     the state that moved, by reconfiguration       view.py, report.py, plots.py   what you see
"""
