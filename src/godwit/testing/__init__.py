"""For tests of programs that use godwit: scripted sources, a collecting sink, small worlds, the oracle as an assertion.

    script.py        what happens, as values: rows, PAUSE, MOVE, DETACH, KILL, ...; a Player plays them into a fleet
    collected.py     a sink that keeps its rows and lets a test wait for them
    topologies.py    line, star, ring, tree
    rows.py          seeded rows
    queries.py       logical plans without SQL, for tests of the control plane
    oracle.py        assert_equal_to_oracle
    link_emulator.py sockets with the bandwidth of a link
    link_delays.py   messages that are seen elsewhere only after the latency of a link

docs/howto/test_your_queries.md shows a test from beginning to end. Nothing here imports pyspark or the fleet.
"""

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
    "Player",
    "Script",
    "assert_equal_to_oracle",
    "line",
    "readings",
    "ring",
    "star",
    "tree",
]
