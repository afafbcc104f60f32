"""`godwit serve` and `godwit token`: a fleet as a service, and who may use it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from godwit.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from godwit.ingest.device_locator import PositionColumns
    from godwit.observe.traces import Traces
    from godwit.scenario.spec import Scenario
    from godwit.server.backend import Backend


def serve(
    folder: Annotated[
        str, typer.Argument(help="The fleet's folder, made if it is not there; with --processes, its store's URL.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 8321,
    tokens: Annotated[Path | None, typer.Option(help="File of tokens (`godwit token` prints its lines).")] = None,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    topology: Annotated[Path | None, typer.Option(help="Topology file to add to what is there.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Scenario file: its streams, devices, queries, broker sources and sinks.")
    ] = None,
    processes: Annotated[
        bool, typer.Option("--processes", help="The fleet's coordinator and regions run already (`godwit up`).")
    ] = False,
    positions: Annotated[
        str | None,
        typer.Option(help="Columns with a device's position, 'lat,lon': it goes to the nearest site."),
    ] = None,
    hysteresis: Annotated[
        float, typer.Option(min=0, help="A site is left only for one that is nearer by this many metres.")
    ] = 0.0,
    otel: Annotated[
        bool, typer.Option("--otel", help="Export reconfigurations as OpenTelemetry traces (OTEL_* variables).")
    ] = False,
) -> None:
    """Run a fleet (or join one of processes) with a REST API, live results, metrics and a page, until interrupted."""
    from godwit.server.access import load_tokens

    access = load_tokens(tokens, os.environ)
    if access.open:
        if not _is_loopback(host):
            msg = f"{host} is reachable from outside: give --tokens FILE (or GODWIT_TOKENS), or listen on 127.0.0.1"
            raise ConfigError(msg)
        typer.secho("no tokens: everybody on this machine may do everything", fg="red", err=True)
    if (certificate is None) != (key is None):
        msg = "TLS needs both --certificate and --key"
        raise ConfigError(msg)
    columns = _columns(positions, hysteresis)
    if processes and config is not None:
        msg = "--config sets an embedded fleet up; give a fleet of processes its streams and queries over the API"
        raise ConfigError(msg)
    import uvicorn

    from godwit.server.app import create_app

    with _backend(folder, topology, processes, None if config is None else _load(config)) as backend:
        app = create_app(backend, access, positions=columns)
        traces = _traces(app) if otel else None
        files = {"ssl_certfile": certificate, "ssl_keyfile": key} if certificate else {}
        more = {"log_level": "warning", "lifespan": "off", "timeout_graceful_shutdown": 3, **files}
        settings = uvicorn.Config(app, host=host, port=port, **more)  # type: ignore[arg-type]
        listening = settings.bind_socket()
        listening.listen()  # whoever reads the address below may call at once
        scheme, at = "https" if certificate else "http", listening.getsockname()[1]
        typer.echo(f"godwit serves {folder} at {scheme}://{host}:{at} (API: /v1/openapi.json)", err=True)
        uvicorn.Server(settings).run(sockets=[listening])
        if traces is not None:
            traces.stop()


def _traces(app: FastAPI) -> Traces:
    from godwit.observe.traces import Traces

    made = Traces()
    app.state.service.tracing = made.tell
    return made


@contextmanager
def _backend(folder: str, topology: Path | None, processes: bool, told: Scenario | None) -> Iterator[Backend]:
    """The fleet that is served, while it is."""
    from godwit.model.topology_file import load_topology

    if processes:
        from godwit.process.connect import connect
        from godwit.server.backend import add_topology
        from godwit.server.processes import ProcessBackend

        over = ProcessBackend(lambda: connect(folder))
        try:
            if topology is not None:
                add_topology(over, load_topology(topology))
            yield over
        finally:
            over.stop()
        return
    from godwit.api.fleet import Fleet
    from godwit.scenario.connect import follow_brokers
    from godwit.scenario.run import set_up
    from godwit.server.embedded import EmbeddedBackend

    ground = None if topology is None else load_topology(topology)  # (before Spark starts)
    with Fleet.embedded(folder) as fleet:
        if ground is not None:
            fleet.topology.add(ground)
        if told is not None:
            set_up(fleet, told, told.ground())
        fleet.start()
        follow_brokers(fleet, [] if told is None else told.sources)
        yield EmbeddedBackend(fleet)


def _columns(positions: str | None, hysteresis: float) -> PositionColumns | None:
    if positions is None:
        return None
    from godwit.ingest.device_locator import PositionColumns

    lat, comma, lon = (part.strip() for part in positions.partition(","))
    if not (lat and comma and lon):
        msg = f"--positions '{positions}': name two columns, latitude first, such as lat,lon"
        raise ConfigError(msg)
    return PositionColumns(lat, lon, hysteresis)


def _load(file: Path) -> Scenario:
    """What a file declares; a server has no trace and plays no recordings."""
    from godwit.scenario.spec import load_scenario

    told = load_scenario(file, serving=True)
    played = [source.stream for source in told.sources if source.replay or source.generator]
    if played or told.world is not None or told.trace is not None:
        msg = f"{file}: a server plays no world, trace, replay or generator; use `godwit run`, or name brokers"
        raise ConfigError(msg)
    return told


def token(
    name: Annotated[str, typer.Argument(help="Whose token it is.")],
    role: Annotated[str, typer.Option(help="read, feed, operate or admin.")] = "read",
    device: Annotated[str | None, typer.Option(help="Of a feeder: the one device it is.")] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="Of a feeder: a stream it may feed; may be repeated.")
    ] = None,
) -> None:
    """Make a token: the token itself is printed once, and the line for the tokens file holds only its digest."""
    from godwit.server.access import Role, digest_of, new_token

    if role not in list(Role):
        msg = f"role '{role}' is unknown; use {', '.join(Role)}"
        raise ConfigError(msg)
    made = new_token()
    more = (f", device: {device}" if device else "") + (f", streams: [{', '.join(stream)}]" if stream else "")
    typer.echo(f"token (keep it secret): {made}", err=True)
    typer.echo(f"  - {{name: {name}, role: {role}, sha256: '{digest_of(made)}'{more}}}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
