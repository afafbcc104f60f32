"""`fleet.topology` and `fleet.history` of a fleet behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from godwit.client.http import Http
from godwit.client.live import events
from godwit.ids import NodeId
from godwit.model.topology import Device, Link, Site, Topology

_INF = float("inf")


class RemoteTopology:
    def __init__(self, http: Http) -> None:
        self._http = http

    @property
    def now(self) -> Topology:
        """Sites, links and devices as they are now."""
        answer = self._http.ask("GET", "/v1/topology")
        sites = [
            Site(**{**_limits(one, "cpu", "nic_in_mbps", "nic_out_mbps"), "platforms": frozenset(one["platforms"])})
            for one in answer["sites"]
        ]
        links = [Link(**_limits(one, "mbps")) for one in answer["links"]]
        devices = [Device(**_limits(one, "cpu", "mbps")) for one in answer["devices"]]
        return Topology.of(sites, links, devices)

    def path(self, source: NodeId, target: NodeId) -> tuple[NodeId, ...] | None:
        """Over which sites state goes from one to another; None: over none that are there now."""
        now = self.now
        return now.path(source, target) if now.has(source) and now.has(target) else None

    def load(self, source: str | Path) -> None:
        """Add everything in a topology file (or its text) that is not there yet."""
        from godwit.model.topology_file import load_topology

        self.add(load_topology(source))

    def add(self, topology: Topology) -> None:
        from godwit.model.topology_file import dump_topology

        self._http.ask("POST", "/v1/topology", json={"yaml": dump_topology(topology)})


class RemoteHistory:
    def __init__(self, http: Http) -> None:
        self._http = http

    def read(self, after: int = 0) -> list[dict[str, Any]]:
        """Reconfigurations past a number, oldest first."""
        found: list[dict[str, Any]] = self._http.ask("GET", "/v1/history", params={"after": after, "limit": 10_000})
        return found

    def subscribe(self) -> Iterator[dict[str, Any]]:
        """Reconfigurations as they are decided, acknowledged and completed, until the caller stops asking."""
        return events(self._http, "/v1/events")


def _limits(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """JSON has no infinity: None is no limit."""
    return {k: _INF if v is None and k in names else v for k, v in fields.items()}
