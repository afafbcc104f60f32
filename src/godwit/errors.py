"""Every error a user can meet. A message says what is wrong, which one, and what to do next.

GodwitError
├── TopologyError          a topology file, a change or a trace does not hold together
├── SqlError               a query cannot be accepted (carries the place in the text and a remedy)
│   ├── UnknownNameError       a stream, column or function nobody declared
│   ├── UnsupportedError       valid SQL that cannot run continuously
│   └── TypeMismatchError      Spark cannot give an expression a type
├── PlacementError         no valid plan: says which constraints clash
├── AdmissionError         a query does not fit: says which resource is short, and where
├── DeploymentError        a reconfiguration cannot be carried out
├── ConfigError            a scenario, option or environment is wrong
├── SourceError            a source or its data cannot be read
│   ├── NotAttachedError       a device sends, and no site takes its rows
│   └── ElsewhereError         a device's rows belong to another region's process
├── EngineGoneError        Spark's Java has ended
├── DeliveryError          a sink's system does not take results now
├── DataError              an input data set (towers, timetable, trace) cannot be used
└── StateError             what lies on disk is not what was written, or somebody else works on it
    ├── MissingFileError       a file that a record names is not there
    └── StoreAwayError         it cannot be written or read just now: try again

Bugs are asserts, not errors.
"""

from __future__ import annotations


class GodwitError(Exception):
    """Root of all errors that godwit raises on purpose."""


class TopologyError(GodwitError):
    """A topology, a change to it, or a trace of changes does not hold together."""


class SqlError(GodwitError):
    """A query that cannot be accepted; says where in its text and what would help."""

    def __init__(self, problem: str, *, place: str = "", remedy: str = "") -> None:
        self.problem = problem
        #: the piece of SQL at fault, as written
        self.place = place
        self.remedy = remedy
        parts = [problem]
        if place:
            parts.append(f"at: {place}")
        if remedy:
            parts.append(f"remedy: {remedy}")
        super().__init__("\n  ".join(parts))


class UnknownNameError(SqlError):
    """A stream, column or function nobody declared."""


class UnsupportedError(SqlError):
    """Valid SQL that cannot run continuously."""


class TypeMismatchError(SqlError):
    """Spark cannot give an expression a type."""


class PlacementError(GodwitError):
    """There is no valid plan; the message names the constraints that clash."""


class AdmissionError(GodwitError):
    """A query does not fit; the message names the resource that is short and what would make it fit."""


class DeploymentError(GodwitError):
    """A reconfiguration cannot be carried out."""


class ConfigError(GodwitError):
    """A scenario, option or environment is wrong."""


class SourceError(GodwitError):
    """A source or its data cannot be read."""


class NotAttachedError(SourceError):
    """A device sends rows, and is attached to no site that could take them."""


class ElsewhereError(SourceError):
    """A device's rows came to the process of a region in which it is not."""

    def __init__(self, problem: str, region: str = "") -> None:
        super().__init__(problem)
        #: where it is attached
        self.region = region


class EngineGoneError(GodwitError):
    """Spark's Java has ended: nothing runs until the fleet is opened again, and nothing that was committed is lost."""


class DeliveryError(GodwitError):
    """A sink's system does not take results now; the sink is tried again."""


class DataError(GodwitError):
    """An input data set (towers, timetable, trace) cannot be used."""


class StateError(GodwitError):
    """What lies on disk is not what was written, or somebody else works on it."""


class StoreAwayError(StateError):
    """A store cannot be written or read just now (a full disk, a broker that is away): try again."""


class MissingFileError(StateError):
    """A file that a record names is not there."""
