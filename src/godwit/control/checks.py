"""What a command must hold before it is planned."""

from __future__ import annotations

from godwit.errors import DeploymentError
from godwit.ids import SiteId
from godwit.model.topology import Topology
from godwit.names import hint


def check_sink(query: str, sink: str | None, topology: Topology) -> None:
    """The site at which results leave must be there."""
    if sink is None or SiteId(sink) in topology.sites:
        return
    remedy = hint(str(sink), topology.sites, "add it to the topology, or leave `sink` out")
    msg = f"query '{query}' would leave at '{sink}', which is not a site; {remedy}"
    raise DeploymentError(msg)
