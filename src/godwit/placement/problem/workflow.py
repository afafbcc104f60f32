"""The workflow to place: a DAG of operators and the data that flows along its edges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from godwit.errors import PlacementError


@dataclass(frozen=True)
class WorkflowOperator:
    """One operator, with what it asks of a site."""

    name: str
    #: platforms it can run on; None means any
    platforms: frozenset[str] | None = None
    #: share of a site's CPU units it takes
    cpu: float = 0.0
    #: million instructions for one tuple
    work: float = 1.0
    #: state to carry along when it moves, in megabits
    state_mb: float = 0.0
    #: True: only on a site of kind CLOUD
    cloud_only: bool = False


@dataclass(frozen=True)
class DataEdge:
    """Data from one operator to the next."""

    source: str
    target: str
    #: megabits per second at the expected rate
    mbps: float = 1.0


@dataclass(frozen=True)
class Workflow:
    """Operators sorted by name (that is the order of signatures) and the edges between them."""

    name: str
    operators: tuple[WorkflowOperator, ...]
    edges: tuple[DataEdge, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(sorted(self.operators, key=lambda o: o.name)))
        self._check_names()
        self._check_numbers()
        self._check_acyclic()

    @cached_property
    def index(self) -> dict[str, int]:
        """Operator name to its position in signatures."""
        return {operator.name: i for i, operator in enumerate(self.operators)}

    @cached_property
    def graph(self) -> nx.DiGraph[int]:
        """The DAG over operator positions."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(self.operators)))
        graph.add_edges_from((self.index[e.source], self.index[e.target]) for e in self.edges)
        return graph

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """Operator positions, producers before consumers, ties by position."""
        return tuple(nx.lexicographical_topological_sort(self.graph))

    def _check_names(self) -> None:
        if not self.operators:
            msg = f"workflow {self.name!r} has no operators; give it at least one"
            raise PlacementError(msg)
        names = [o.name for o in self.operators]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            msg = f"workflow {self.name!r} names {', '.join(twice)} more than once; operator names must be unique"
            raise PlacementError(msg)
        unknown = sorted({end for e in self.edges for end in (e.source, e.target)} - set(names))
        if unknown:
            msg = f"workflow {self.name!r} has edges to unknown operators {', '.join(unknown)}; declare them first"
            raise PlacementError(msg)
        pairs = [(e.source, e.target) for e in self.edges]
        if len(set(pairs)) != len(pairs):
            double = next(p for p in pairs if pairs.count(p) > 1)
            msg = f"workflow {self.name!r} has the edge {double[0]} -> {double[1]} twice; merge them into one"
            raise PlacementError(msg)

    def _check_numbers(self) -> None:
        for o in self.operators:
            for what, value in (("cpu", o.cpu), ("work", o.work), ("state_mb", o.state_mb)):
                if not (math.isfinite(value) and value >= 0):
                    msg = f"operator {o.name!r}: {what} is {value}; it must be a number of at least 0"
                    raise PlacementError(msg)
        for e in self.edges:
            if not (math.isfinite(e.mbps) and e.mbps >= 0):
                msg = f"edge {e.source} -> {e.target}: mbps is {e.mbps}; it must be a number of at least 0"
                raise PlacementError(msg)

    def _check_acyclic(self) -> None:
        if nx.is_directed_acyclic_graph(self.graph):
            return
        cycle = [self.operators[u].name for u, _ in nx.find_cycle(self.graph)]
        path = " -> ".join([*cycle, cycle[0]])
        msg = f"workflow {self.name!r} is cyclic: {path}; remove one of these edges"
        raise PlacementError(msg)
