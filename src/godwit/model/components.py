"""Connected parts of a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def connected(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> Iterator[frozenset[Node]]:
    """The maximal sets of nodes that edges connect, in the order of their first nodes."""
    neighbours: dict[Node, list[Node]] = {node: [] for node in nodes}
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    seen = set[Node]()
    for start in neighbours:
        if start in seen:
            continue
        part, waiting = {start}, [start]
        while waiting:
            more = [node for node in neighbours[waiting.pop()] if node not in part]
            part.update(more)
            waiting += more
        seen |= part
        yield frozenset(part)
