"""For tests of programs that use godwit: scripted sources, a collecting sink, small worlds, the oracle as an assertion.

    script.py        what happens, as values: rows, PAUSE, MOVE, DETACH, KILL, ...; a Player plays them into a fleet
    collected.py     a sink that keeps its rows and lets a test wait for them
    topologies.py    line, star, ring, tree
    rows.py          seeded rows
    queries.py       logical plans without SQL, for tests of the control plane
    broker.py, spark_cluster.py     a NATS server, a standalone Spark cluster, on loopback
    packages.py      jars of Java packages, by Ivy
    oracle.py        assert_equal_to_oracle

`Links` says what the links between sites are like, for `Fleet(links=..)`; the runtime emulates them
(`region/link_emulator.py`, `region/link_delays.py`).

docs/howto/test_your_queries.md shows a test from beginning to end. Nothing here imports pyspark or the fleet.
"""

from godwit.region.link_emulator import Links
from godwit.testing.collected import Collected
from godwit.testing.oracle import assert_equal_to_oracle
from godwit.testing.rows import readings
from godwit.testing.script import (
    CHANGE,
    DETACH,
    KILL,
    MOVE,
    PAUSE,
    SEND,
    SUBMIT,
    WITHDRAW,
    Action,
    Killed,
    Player,
    Script,
)
from godwit.testing.topologies import line, ring, star, tree

__all__ = [
    "CHANGE",
    "DETACH",
    "KILL",
    "MOVE",
    "PAUSE",
    "SEND",
    "SUBMIT",
    "WITHDRAW",
    "Action",
    "Collected",
    "Killed",
    "Links",
    "Player",
    "Script",
    "assert_equal_to_oracle",
    "line",
    "readings",
    "ring",
    "star",
    "tree",
]
