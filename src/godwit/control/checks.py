"""What a command must hold before it is planned."""

from __future__ import annotations

from difflib import get_close_matches

from godwit.errors import DeploymentError
from godwit.ids import SiteId
from godwit.model.topology import Topology


def check_sink(query: str, sink: str | None, topology: Topology) -> None:
    """The site at which results leave must be there."""
    if sink is None or SiteId(sink) in topology.sites:
        return
    near = get_close_matches(str(sink), topology.sites, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "add it to the topology, or leave `sink` out"
    msg = f"query '{query}' would leave at '{sink}', which is not a site; {hint}"
    raise DeploymentError(msg)
