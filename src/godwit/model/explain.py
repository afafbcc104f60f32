"""A query for people: what it gives, its plan as a tree, its parameters and its shape."""

from __future__ import annotations

from collections.abc import Iterator

from godwit.ids import SiteId
from godwit.model.components import connected
from godwit.model.deployment import Deployment
from godwit.model.plan import Query
from godwit.model.topology import Topology


def explain(query: Query, suspended: str | None = None) -> str:
    """Titled sections, one below the other; `suspended`: why it has no place, or would have none."""
    sections = {
        "Suspended": iter([suspended] if suspended else []),
        "Query": _summary(query),
        "Plan": _tree(query, len(query.shape.plan.operators) - 1),
        "State": _state(query),
        "Parameters": _parameters(query),
        "Shape": _shape(query),
    }
    filled = {title: list(lines) for title, lines in sections.items()}
    return "\n\n".join("\n".join((f"== {title} ==", *lines)) for title, lines in filled.items() if lines) + "\n"


def parted(query: Query, deployment: Deployment, topology: Topology) -> str | None:
    """Why a query would get no rows of some of its devices: no link connects the sites where they are."""
    feeders = {device for _, scan in query.shape.plan.scans for device in deployment.feeds.get(scan.stream, ())}
    at = {site for device in feeders if (site := deployment.devices.get(device)) is not None}
    links = (tuple(link.ends) for link in topology.links.values())
    found = (part & at for part in connected(topology.sites, ((SiteId(a), SiteId(b)) for a, b in links)))
    parts = [", ".join(sorted(part)) for part in found if part]
    if len(parts) < 2:
        return None
    return f"its devices are at sites that no link connects ({' | '.join(parts)}): it would wait; add a link first"


def _summary(query: Query) -> Iterator[str]:
    sink = query.shape.plan.sink
    yield f"name:    {query.id}"
    if query.target:
        yield f"into:    {query.target}"
    yield f"columns: {', '.join(query.output)}"
    if query.scattered:
        yield "results: leave in the region where a row is read, for no site was asked for"
    if sink.time:
        yield f"time:    {sink.time}, at most {_seconds(sink.lag_us)} behind the query's clock"
    else:
        yield "time:    none of the columns is one"


def _tree(query: Query, index: int, first: str = "", rest: str = "") -> Iterator[str]:
    """An operator and, indented, what feeds it."""
    operator = query.shape.plan.operators[index]
    yield f"{first}{index} {operator.describe()}{operator.detail}"
    for i, below in enumerate(operator.inputs):
        last = i == len(operator.inputs) - 1
        yield from _tree(query, below, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _state(query: Query) -> Iterator[str]:
    """What each operator keeps, and until when; nothing of plans that keep nothing."""
    for index, operator in enumerate(query.shape.plan.operators):
        if operator.stateful:
            yield f"{index} keeps {operator.keeps}"


def _parameters(query: Query) -> Iterator[str]:
    for parameter, value in zip(query.shape.parameters, query.parameters, strict=True):
        yield f":{parameter.name.removeprefix('__')} {parameter.type} = {value}"
    for index, scan in query.shape.plan.scans:
        if index in query.subscriptions:
            yield f"{index} {scan.alias}.{scan.subscribe} in {', '.join(query.subscriptions[index])}"
    if not query.parameters and not query.subscriptions:
        yield "none"


def _shape(query: Query) -> Iterator[str]:
    plan = query.shape.plan
    local = [str(i) for i in range(len(plan.operators)) if plan.is_local(i)]
    yield f"key:     {query.shape.key}"
    yield f"streams: {', '.join(dict.fromkeys(str(scan.stream) for _, scan in plan.scans))}"
    yield f"local:   operators {', '.join(local)} can run at a device's own site"


def _seconds(us: int) -> str:
    return f"{us / 1e6:g} s"
