"""Workloads of published evaluations, with seeded generators: any rate, any length, the same rows for the same seed.

TM, NQ5 to NQ8, LR-TN and LR-AN are those of the Falcon paper. `named("nq5")` has its streams, its query and its rows.
"""

from godwit.workloads.base import Settings, StreamWorkload
from godwit.workloads.catalogue import WORKLOADS, named

__all__ = ["WORKLOADS", "Settings", "StreamWorkload", "named"]
