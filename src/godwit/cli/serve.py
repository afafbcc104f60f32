"""`godwit serve` and `godwit token`: a fleet as a service, and who may use it."""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from godwit.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from godwit.ingest.device_locator import PositionColumns
    from godwit.model.topology import Topology
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
        typer.secho("no tokens: every user of this machine has all rights", fg="red", err=True)
    # Everything that can be wrong is looked at first: Spark takes seconds to start.
    files = _tls(certificate, key)
    columns = _columns(positions, hysteresis)
    if processes and config is not None:
        msg = "--config sets an embedded fleet up; give a fleet of processes its streams and queries over the API"
        raise ConfigError(msg)
    told = None if config is None else _load(config)
    ground = None if topology is None else _ground(topology)
    with _bound(host, port) as listening:
        if not processes:
            typer.echo("starting Spark, which takes some seconds", err=True)
        import uvicorn

        from godwit.server.app import create_app
        from godwit.server.background import LiveServer

        with _backend(folder, ground, processes, told) as backend:
            app = create_app(backend, access, positions=columns)
            traces = _traces(app) if otel else None
            more = {"log_level": "warning", "lifespan": "off", "timeout_graceful_shutdown": 3, **files}
            settings = uvicorn.Config(app, host=host, port=port, **more)  # type: ignore[arg-type]
            listening.listen(settings.backlog)  # a program that reads the address below may call at once
            scheme, at = "https" if certificate else "http", listening.getsockname()[1]
            shown = f"[{host}]" if ":" in host else host
            typer.echo(f"godwit serves {folder} at {scheme}://{shown}:{at} (API: /v1/openapi.json)", err=True)
            LiveServer(settings).run(sockets=[listening])
            if traces is not None:
                traces.stop()


def _bound(host: str, port: int) -> socket.socket:
    """A socket with this address; calls are refused until it listens."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as fault:
        other = (
            "give another --port (0: any free one)" if fault.errno == errno.EADDRINUSE else "check --host and --port"
        )
        msg = f"cannot listen on {host}, port {port}: {fault.strerror}; {other}"
        raise ConfigError(msg) from fault
    return made


def _tls(certificate: Path | None, key: Path | None) -> dict[str, Path]:
    """What uvicorn is told; ConfigError if it could not use the files."""
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        msg = "TLS needs both --certificate and --key"
        raise ConfigError(msg)
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as fault:  # (an SSLError is one)
        why = fault.strerror or fault
        msg = f"--certificate {certificate} and --key {key} cannot be used: {why}; give PEM files that belong together"
        raise ConfigError(msg) from fault
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


def _ground(file: Path) -> Topology:
    from godwit.model.topology_file import load_topology

    return load_topology(file)


def _traces(app: FastAPI) -> Traces:
    from godwit.observe.traces import Traces

    made = Traces()
    app.state.service.tracing = made.tell
    return made


@contextmanager
def _backend(folder: str, ground: Topology | None, processes: bool, told: Scenario | None) -> Iterator[Backend]:
    """The fleet that is served, while it is."""
    if processes:
        from godwit.process.connect import connect
        from godwit.server.backend import add_topology
        from godwit.server.processes import ProcessBackend

        over = ProcessBackend(lambda: connect(folder))
        try:
            if ground is not None:
                add_topology(over, ground)
            yield over
        finally:
            over.stop()
        return
    from godwit.api.fleet import Fleet
    from godwit.scenario.connect import follow_brokers
    from godwit.scenario.run import set_up
    from godwit.server.embedded import EmbeddedBackend

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
    if role != Role.FEED and (device or stream):
        msg = f"--device and --stream are of feeders, and would not limit '{role}'; give --role feed"
        raise ConfigError(msg)
    made = new_token()
    told = {"name": name, "role": role, "sha256": digest_of(made), "device": device, "streams": stream or None}
    typer.echo(f"token (keep it secret): {made}", err=True)
    typer.echo("  - " + json.dumps({key: value for key, value in told.items() if value is not None}))  # (JSON is YAML)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
