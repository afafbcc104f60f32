"""The network to place on: sites with their platforms, links, and the distances between all pairs of sites."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

from godwit.errors import PlacementError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NetworkSite:
    """A place that can host operators."""

    name: str
    platforms: tuple[str, ...] = ("any",)
    #: CPU units it can give away
    cpu: float = math.inf
    #: million instructions a second
    mips: float = 1000.0
    kind: str = "site"
    region: str = ""


@dataclass(frozen=True)
class NetworkLink:
    """A connection both ways."""

    a: str
    b: str
    latency_ms: float
    #: what it can carry in one direction, megabits per second
    mbps: float = math.inf


@dataclass(frozen=True)
class Paths:
    """Shortest paths (by latency) between all pairs of sites."""

    #: milliseconds
    distance: Floats
    #: links on the path
    hops: Floats
    #: site before the last one on the path from row to column, -1 where they are the same
    before: NDArray[np.int32]
    #: (site, parent), parents first, where the network is a tree; otherwise one entry only
    tree: tuple[tuple[int, int], ...] = ((0, 0),)
    #: latency of each of these sites to its parent
    tree_up: tuple[float, ...] = (0.0,)


@dataclass(frozen=True)
class Network:
    """Sites sorted by name (ids 1..N in that order) and links."""

    sites: tuple[NetworkSite, ...]
    links: tuple[NetworkLink, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "sites", tuple(sorted(self.sites, key=lambda s: s.name)))
        self._check_sites()
        self._check_links()
        self._check_connected()

    @cached_property
    def index(self) -> dict[str, int]:
        """Site name to its position."""
        return {site.name: i for i, site in enumerate(self.sites)}

    @cached_property
    def actions(self) -> tuple[tuple[int, str], ...]:
        """The set A of the paper: (site position, platform), by site, then by platform name."""
        return tuple((i, p) for i, site in enumerate(self.sites) for p in sorted(site.platforms))

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """Every platform that exists somewhere, sorted."""
        return tuple(sorted({p for _, p in self.actions}))

    @cached_property
    def paths(self) -> Paths:
        """Distances, hops and routes; computed once, N = 2,047 takes about a second."""
        return _tree_paths(self) if len(self.links) == len(self.sites) - 1 else _graph_paths(self)

    def _check_sites(self) -> None:
        if not self.sites:
            msg = "the network is empty; give it at least one site"
            raise PlacementError(msg)
        names = [s.name for s in self.sites]
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            msg = f"site {twice!r} appears more than once; site names must be unique"
            raise PlacementError(msg)
        for site in self.sites:
            if math.isnan(site.cpu) or site.cpu < 0 or not site.mips > 0:
                msg = f"site {site.name!r}: cpu {site.cpu} and mips {site.mips} must be positive numbers"
                raise PlacementError(msg)

    def _check_links(self) -> None:
        for link in self.links:
            unknown = [end for end in (link.a, link.b) if end not in self.index]
            if unknown:
                msg = f"link {link.a} - {link.b} names the unknown site {unknown[0]!r}; declare it or drop the link"
                raise PlacementError(msg)
            if not (math.isfinite(link.latency_ms) and link.latency_ms >= 0):
                msg = f"link {link.a} - {link.b}: latency is {link.latency_ms} ms; it must be a number of at least 0"
                raise PlacementError(msg)
            if math.isnan(link.mbps) or link.mbps < 0:
                msg = f"link {link.a} - {link.b}: bandwidth is {link.mbps} Mb/s; it must be at least 0"
                raise PlacementError(msg)

    def _check_connected(self) -> None:
        n = len(self.sites)
        a = [self.index[link.a] for link in self.links]
        b = [self.index[link.b] for link in self.links]
        count, part = connected_components(csr_matrix((np.ones(len(a)), (a, b)), shape=(n, n)), directed=False)
        if count > 1:
            lost = [self.sites[i].name for i in np.flatnonzero(part != part[0])[:5]]
            msg = (
                f"the network falls into {count} parts: {', '.join(lost)} cannot be reached from "
                f"{self.sites[0].name}; add a link or drop these sites"
            )
            raise PlacementError(msg)


def _adjacency(network: Network) -> list[list[tuple[int, float]]]:
    near: list[list[tuple[int, float]]] = [[] for _ in network.sites]
    for link in network.links:
        a, b = network.index[link.a], network.index[link.b]
        near[a].append((b, link.latency_ms))
        near[b].append((a, link.latency_ms))
    return near


def _tree_paths(network: Network) -> Paths:
    """On a tree the path is unique: walk it from every site."""
    from godwit.placement.problem.tree_walk import walk  # numba loads when a distance is first asked for

    n, near = len(network.sites), _adjacency(network)
    near_at = np.cumsum([0] + [len(row) for row in near]).astype(np.int64)
    ends = np.array([v for row in near for v, _ in row], dtype=np.int64)
    latency = np.array([ms for row in near for _, ms in row], dtype=np.float64)
    distance, hops, before = np.zeros((n, n)), np.zeros((n, n)), np.full((n, n), -1, dtype=np.int32)
    walk(near_at, ends, latency, distance, hops, before)
    # In floating point 0.1 + 0.7 is not 0.8, and int(1000 * 0.7999...) is a microsecond short: decimals stay decimals.
    distance = np.round(distance, 9)
    order = [int(v) for v in np.argsort(hops[0], kind="stable")]
    tree = tuple((v, max(0, int(before[0, v]))) for v in order)
    up = tuple(float(distance[v, before[0, v]]) if before[0, v] >= 0 else 0.0 for v in order)
    return Paths(distance, hops, before, tree, up)


def _graph_paths(network: Network) -> Paths:
    """Dijkstra from every site. A zero-latency link keeps a trace of weight, or the sparse graph would drop it."""
    n = len(network.sites)
    rows, cols, weights = [], [], []
    for u, near in enumerate(_adjacency(network)):
        best: dict[int, float] = {}
        for v, latency in near:
            best[v] = min(latency, best.get(v, math.inf))
        for v, latency in best.items():
            rows.append(u)
            cols.append(v)
            weights.append(max(latency, 1e-12))
    graph = csr_matrix((weights, (rows, cols)), shape=(n, n))
    distance, before = dijkstra(graph, directed=True, return_predecessors=True)
    before = np.where(before < 0, -1, before).astype(np.int32)
    return Paths(np.round(distance, 9), _hops(distance, before), before)


def _hops(distance: Floats, before: NDArray[np.int32]) -> Floats:
    """Count links by stepping all pairs back towards their row's site together."""
    n = distance.shape[0]
    hops = np.zeros((n, n))
    at = np.broadcast_to(np.arange(n, dtype=np.int32), (n, n)).copy()
    rows = np.broadcast_to(np.arange(n)[:, None], (n, n))
    open_ = at != rows
    while open_.any():
        hops[open_] += 1
        at[open_] = before[rows[open_], at[open_]]
        open_ = at != rows
    return hops
