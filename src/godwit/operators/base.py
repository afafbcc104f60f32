"""What a stateful operator is, to the region that runs it: one class with a `step`, registered for a kind of plan node.

The plan node (`model.plan.Operator`) declares what everybody else must know: its state (keys, time column, retention),
whether late state can be merged, whether its results are appended or replace each other. The implementation here gets
an `OperatorContext`, and knows nothing of regions, epochs or commits. A new operator is a node class, an implementation
and its SQL; nothing in `region/` names one.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from pyspark.sql import SparkSession

import godwit.operators
from godwit.engine.lazy_frame import Frame
from godwit.engine.size_policy import SizePolicy
from godwit.ids import QueryId
from godwit.model.plan import Operator
from godwit.region.poll import Arrived
from godwit.region.routing_tables import Tables
from godwit.region.state import State
from godwit.storage.log import Segment

#: query -> a watermark, or a bound made of it (microseconds)
Watermarks = dict[QueryId, int]


class OperatorContext(Protocol):
    """One operator in one micro-batch of one region."""

    spark: SparkSession
    tables: Tables
    sizes: SizePolicy

    @property
    def few(self) -> bool:
        """Whether few rows come in."""

    def makes_few(self, few: bool) -> None:
        """Say that few rows come out, where that depends on what was read."""

    def state(self, side: int = 0) -> State:
        """What is kept of an input."""

    def for_readers(self, rows: Frame) -> Frame:
        """Rows of which results are made, once for every query that taps the operator, of its own time."""

    def admit(
        self, side: int, rows: Frame | None, since: Watermarks, few: bool | None = None, linked: bool = False
    ) -> list[Segment]:
        """Stage an input's new rows as segments of its state; rows before `since` go to the late log. `linked`: they
        are kept for a short time, so that many rows that lie in files may stay there (`engine/file_frame.py`)."""

    def arrivals(self) -> list[Arrived]:
        """State that came from the instance's last region: ours now, and of our generation."""

    def hand_over(self) -> None:
        """Stage the state of instances that moved away for their new region, and leave it out of ours."""

    def released(self) -> Watermarks:
        """How far the operator has let each query's watermark go on."""

    def advance(self) -> tuple[Watermarks, Watermarks]:
        """(how far it had been let go, how far it is now); the operators above hear of it."""

    def dead_before(self, bounds: Watermarks) -> int:
        """The least bound of the queries that may have state here."""

    def generations(self) -> Mapping[QueryId, int]:
        """Of instances that ever moved: the generation of their rows."""

    def divided(self, query: QueryId) -> bool:
        """Whether the operator's keys have, or ever had, several owners."""

    def in_company(self, side: int, rows: Frame) -> Frame:
        """Rows of an input's state; those of which GENERATION says the same have met, or meet now."""

    def unanswered(self, side: int, rows: Frame, wait_us: int) -> Frame:
        """Rows of an input without those that earlier owners of their keys answered, so far behind their watermark."""

    def leaving(self) -> list[tuple[QueryId, int]]:
        """(query, epoch) of instances whose older generations wait to be handed over: not ours to touch."""

    def write(self, rows: Frame, what: str, side: int = 0, few: bool | None = None) -> Segment | None:
        """Stage rows as a segment of an input's state."""

    def replace(self, side: int, segments: Sequence[Segment]) -> None:
        """From now on these are all that is kept of an input."""

    def tidy(self, side: int, bound: int, merge: Callable[[Frame], Frame] | None = None) -> None:
        """Drop segments that end by the bound; rewrite many small ones as one, `merge`d where rows can be."""


class StatefulOperator(ABC):
    """The implementation of a stateful plan node; made for one node, keeps nothing between micro-batches."""

    @abstractmethod
    def step(self, context: OperatorContext, inputs: Sequence[Frame | None]) -> Frame | None:
        """Take in new rows and state, hand over what moved away, and return the new results."""

    def next_due(self, context: OperatorContext) -> float | None:
        """When (wall clock, seconds) it wants a micro-batch even if nothing arrives; asked after each step."""
        return None


Made = TypeVar("Made", bound=Callable[[Any], StatefulOperator])
_KNOWN: dict[type[Operator], list[tuple[Callable[[Any], bool], Callable[[Any], StatefulOperator]]]] = {}


def implements(kind: type[Operator], when: Callable[[Any], bool] = lambda node: True) -> Callable[[Made], Made]:
    """Register a class (or a function) that makes the implementation of a node; `when`: of such nodes only."""

    def register(made: Made) -> Made:
        _KNOWN.setdefault(kind, []).append((when, made))
        return made

    return register


def implementation(node: Operator) -> StatefulOperator:
    """What runs a stateful node."""
    if type(node) not in _KNOWN:
        # Every module of this package registers itself: a new operator need not be listed anywhere.
        for module in pkgutil.iter_modules(godwit.operators.__path__, "godwit.operators."):
            importlib.import_module(module.name)
    return next(made(node) for when, made in _KNOWN[type(node)] if when(node))
