"""Ways to a sink: shortest-path trees over the sites, one a root, repaired where links changed.

A device that moves changes no tree. A link or site that comes or goes costs the part of each tree that hangs on it,
never a search over the whole topology (after Ramalingam and Reps, "On the computational complexity of dynamic graph
problems"). Devices are not in the trees: they are at most the beginning of a way.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from godwit.ids import DeviceId, NodeId, SiteId
from godwit.model.journal import Journal
from godwit.model.topology import Topology

#: from a node to the root, both included
Way = tuple[NodeId, ...]
#: a hop costs at least this, so that of two ways with equal latency the one with fewer hops wins
HOP_MS = 1e-6


class _Tree:
    """The shortest way of every site to one root."""

    def __init__(self, root: NodeId) -> None:
        self.root = root
        self.distance: dict[NodeId, float] = {}
        #: the next site on the way to the root
        self.next: dict[NodeId, NodeId] = {}
        self.behind: dict[NodeId, dict[NodeId, None]] = {}

    def grow(self, topology: Topology, heap: list[tuple[float, NodeId, NodeId]], journal: Journal) -> None:
        """Dijkstra from the candidates (distance, site, next site) in the heap; keeps what is better already."""
        heapq.heapify(heap)
        while heap:
            distance, site, via = heapq.heappop(heap)
            if distance >= self.distance.get(site, float("inf")):
                continue
            self._hang(site, via, distance, journal)
            for neighbour, link in topology.adjacency[site].items():
                reach = distance + link["ms"] + HOP_MS
                if reach < self.distance.get(neighbour, float("inf")) and SiteId(neighbour) in topology.sites:
                    heapq.heappush(heap, (reach, neighbour, site))

    def cut(self, site: NodeId, journal: Journal) -> list[NodeId]:
        """Take off a site and all that is behind it; returns them."""
        off = [site]
        for one in off:
            off.extend(self.behind.get(one, ()))
        for one in off:
            journal.out_of(self.behind, self.next[one], one)
            journal.drop(self.next, one)
            journal.drop(self.distance, one)
        return off

    def _hang(self, site: NodeId, via: NodeId, distance: float, journal: Journal) -> None:
        if site in self.next:
            journal.out_of(self.behind, self.next[site], site)
        journal.put(self.distance, site, distance)
        journal.put(self.next, site, via)
        if site != via:
            journal.into(self.behind, via, site, None)


class SitePaths:
    """Ways from any node to the roots asked for so far, over the topology last given."""

    def __init__(self, topology: Topology, journal: Journal) -> None:
        self._journal = journal
        self._now: dict[str, Topology] = {"topology": topology}
        self._trees: dict[NodeId, _Tree] = {}

    @property
    def topology(self) -> Topology:
        return self._now["topology"]

    def way(self, node: NodeId, root: NodeId) -> Way | None:
        """The way from a site or device to the root, or None."""
        device = self.topology.devices.get(DeviceId(node))
        if device is not None:
            rest = self.way(NodeId(device.site), root) if device.site is not None else None
            return None if rest is None else (node, *rest)
        tree = self._tree(root)
        if node not in tree.next:
            return None
        way = [node]
        while way[-1] != root:
            way.append(tree.next[way[-1]])
        return tuple(way)

    def move_to(self, topology: Topology, links: Iterable[frozenset[SiteId]]) -> None:
        """Take the new topology; `links` are those between sites that came, went or changed."""
        self._journal.put(self._now, "topology", topology)
        pairs = [tuple(NodeId(end) for end in link) for link in links]
        for tree in self._trees.values():
            self._repair(tree, pairs)

    def forget(self, root: NodeId) -> None:
        self._journal.drop(self._trees, root)

    def _tree(self, root: NodeId) -> _Tree:
        tree = self._trees.get(root)
        if tree is None:
            tree = _Tree(root)
            if SiteId(root) in self.topology.sites:
                # Not journalled: a tree is knowledge about the topology, right for every caller. It is
                # dropped again if the topology it was made for is taken back.
                tree.grow(self.topology, [(0.0, root, root)], Journal())
            self._journal.put(self._trees, root, tree)
        return tree

    def _repair(self, tree: _Tree, pairs: list[tuple[NodeId, ...]]) -> None:
        topology = self.topology
        loose: list[NodeId] = []
        for a, b in pairs:
            for site, via in ((a, b), (b, a)):
                if tree.next.get(site) == via:
                    loose.extend(tree.cut(site, self._journal))
        if tree.root in tree.next and SiteId(tree.root) not in topology.sites:
            loose.extend(tree.cut(tree.root, self._journal))
        heap: list[tuple[float, NodeId, NodeId]] = []
        if SiteId(tree.root) in topology.sites and tree.root not in tree.next:
            heap.append((0.0, tree.root, tree.root))
        for site in {*loose, *(end for pair in pairs for end in pair)}:
            for neighbour, link in topology.adjacency.get(site, {}).items():
                if neighbour in tree.distance:
                    heap.append((tree.distance[neighbour] + link["ms"] + HOP_MS, site, neighbour))
        tree.grow(topology, heap, self._journal)
