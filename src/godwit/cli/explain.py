"""`godwit explain`: what a query becomes and where it would run; with --change, what a change would do. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.cli.ask import text
from godwit.cli.changes import given
from godwit.cli.choices import Redeployment, Rule, State
from godwit.cli.output import Output, as_json, form
from godwit.errors import ConfigError

if TYPE_CHECKING:
    from godwit.control.control_plane import ControlPlane
    from godwit.ids import DeviceId, QueryId, StreamId
    from godwit.model.plan import Query, Stream
    from godwit.model.topology import Topology

    Feeds = dict[StreamId, list[DeviceId]]


def explain(
    query: Annotated[str, typer.Argument(help="A file with SQL (- for stdin), or the SQL itself.")],
    topology: Annotated[Path, typer.Option(help="Topology file.")],
    streams: Annotated[
        Path | None, typer.Option(help="File with the streams: a scenario, or YAML with the key streams.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option(help="A change ('device t1 -> east') or a file of them; may be repeated.")
    ] = None,
    sink: Annotated[str | None, typer.Option(help="The site at which results leave.")] = None,
    rule: Rule = "bottom-up",
    redeployment: Redeployment = "incremental",
    state: State = "delta",
    output: Output = "table",
) -> None:
    """Show a query's plan and places and, with --change, what a reconfiguration would do. Nothing is run."""
    how = form(output)
    from godwit.admission.fleet_spec import gives_capacities
    from godwit.control.checks import check_sink
    from godwit.control.control_plane import ControlPlane
    from godwit.control.events import Park
    from godwit.ids import QueryId, SiteId
    from godwit.model.scattering import scattered
    from godwit.model.topology_file import load_topology
    from godwit.sql import compile_query

    ground = load_topology(topology)
    declared, feeds = _streams(streams or _beside(topology), ground)
    check_sink(_name(query), sink, ground)
    compiled = compile_query(text(query), declared, QueryId(_name(query)))
    if sink is None and not gives_capacities(ground):
        compiled = scattered(compiled)
    plane = ControlPlane(
        ground,
        rule=rule,
        redeployment_strategy=redeployment,
        state=state,
        streams=declared,
        feeds=feeds,
    )
    told = [*plane.submit(compiled, SiteId(sink) if sink else None), *plane.settle()]
    parked = {one.query: one.reason for one in told if isinstance(one, Park)}
    what_if = plane.explain_change(given(change)) if change else ""
    _print(how, compiled, plane, parked, what_if)


def _print(how: str, query: Query, plane: ControlPlane, parked: dict[QueryId, str], what_if: str) -> None:
    from godwit.model.explain import explain as explained

    placement = {str(i): str(site) for i, site in sorted(plane.deployment.placement.items())}
    if how == "json":
        as_json(
            {
                "query": query.id,
                "plan": explained(query),
                "placement": placement,
                "parked": parked.get(query.id),
                "change": what_if or None,
            }
        )
        return
    typer.echo(explained(query, parked.get(query.id)))
    typer.echo("== Placement ==")
    for instance, site in placement.items():
        typer.echo(f"{instance:<32} {site:<16} {plane.topology.region_of(site) or ''}")  # type: ignore[arg-type]
    for name, why in parked.items():
        if name != query.id:
            typer.echo(f"suspended: {name}: {why}")
    if what_if:
        typer.echo(f"\n== Change ==\n{what_if}")


def _name(source: str) -> str:
    return "query" if source == "-" or len(source.split()) > 1 else Path(source).stem


def _beside(topology: Path) -> Path:
    """Without --streams: streams.yaml beside the topology."""
    path = topology.parent / "streams.yaml"
    if not path.exists():
        msg = f"which streams are there? Give --streams FILE (a scenario, or YAML with the key streams), or put {path}"
        raise ConfigError(msg)
    return path


def _streams(path: Path, topology: Topology) -> tuple[dict[StreamId, Stream], Feeds]:
    """What is declared, and which device feeds what: as the file says, else every device every stream."""
    from godwit.ids import DeviceId, StreamId
    from godwit.scenario.spec import DeviceSpec, StreamSpec
    from godwit.yaml_files import read_yaml

    content = read_yaml(path)
    if not isinstance(content, dict) or not isinstance(content.get("streams"), list):
        msg = f"{path}: there is no list 'streams'; write for example\n  streams:\n    - {{name: s, schema: '..'}}"
        raise ConfigError(msg)
    specs = [_spec(path, i, entry, StreamSpec) for i, entry in enumerate(content["streams"])]
    devices = [_spec(path, i, entry, DeviceSpec) for i, entry in enumerate(content.get("devices") or [])]
    streams = {StreamId(s.name): s.value() for s in specs}
    feeds: Feeds = {}
    for spec in specs:
        chosen = [d.id for d in devices if not d.streams or spec.name in d.streams]
        everyone = chosen if devices else list(topology.devices)
        feeds[StreamId(spec.name)] = [DeviceId(d) for d in everyone if d in topology.devices]
    return streams, feeds


def _spec(path: Path, i: int, entry: Any, model: Any) -> Any:
    from pydantic import ValidationError

    from godwit.validation import worded

    try:
        return model.model_validate(entry)
    except ValidationError as error:
        msg = f"{path}: entry {i}: {worded(error.errors(), model)[0]}; see the scenario how-to"
        raise ConfigError(msg) from None
