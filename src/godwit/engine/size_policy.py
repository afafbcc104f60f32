"""What counts as few rows: one frozen value per fleet; every step is executed in the mode that follows from it.

    direct      rows are at hand: Spark's plan for them, compiled once, runs on the calling thread (`direct.py`)
    small-job   rows lie in files: one partition, one job of Spark's, results through Arrow
    large       many rows: as many partitions as there are, Spark's tasks write the files

Where direct plans are off (`GODWIT_ENGINE=jobs`), rows at hand run as jobs of the same cached plans. Tests force a mode
with `SizePolicy.forced`: every query must answer the same in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Execution(Enum):
    """How a step, or a part of it, is executed."""

    DIRECT = "direct"
    SMALL_JOB = "small-job"
    LARGE = "large"


@dataclass(frozen=True)
class SizePolicy:
    """Limits up to which something is done the cheaper way (docs/design/0001 has the measurements; `paired_rows` and
    `beside_rows` are estimates)."""

    #: a micro-batch, or a state that is read, is small: one partition, no shuffle, results through Arrow
    small_rows: int = 150_000
    #: rows are read here and handed to Spark's plans, from at most this number of files
    handed_rows: int = 20_000
    handed_files: int = 64
    #: pairs of (row, query) are made here, where every query of a shape reads every row
    paired_rows: int = 50_000
    #: micro-batches of more rows, or over more state, run beside their region's loop
    beside_rows: int = 20_000
    #: up to this number of queries a CASE in the plan is cheaper than a join: a broadcast adds 50 to 70 ms
    case_queries: int = 16

    def is_small(self, rows: int) -> bool:
        return rows <= self.small_rows

    def is_handed(self, rows: int, files: int) -> bool:
        """Whether rows are worth being read here, without a job."""
        return rows <= self.handed_rows and files <= self.handed_files

    def execution(self, rows: int, files: int = 0) -> Execution:
        """The mode for a number of rows in a number of files."""
        if self.is_handed(rows, files):
            return Execution.DIRECT
        return Execution.SMALL_JOB if self.is_small(rows) else Execution.LARGE

    @staticmethod
    def forced(mode: Execution) -> SizePolicy:
        """Everything in one mode, however many rows there are."""
        match mode:
            case Execution.DIRECT:
                return SizePolicy(small_rows=ALWAYS, handed_rows=ALWAYS, handed_files=ALWAYS, paired_rows=ALWAYS)
            case Execution.SMALL_JOB:
                return SizePolicy(small_rows=ALWAYS, handed_rows=NEVER, paired_rows=NEVER)
            case Execution.LARGE:
                return SizePolicy(small_rows=NEVER, handed_rows=NEVER, paired_rows=NEVER)


ALWAYS, NEVER = 2**62, -1
USUAL = SizePolicy()
