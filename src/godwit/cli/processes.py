"""`godwit coordinator` and `godwit region`: the processes of a fleet."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from godwit.cli.choices import Rule, State
from godwit.errors import ConfigError

StoreUrl = Annotated[
    str, typer.Option(help="What all processes share: a path, file:/path, s3://bucket/fleet, nats://host:4222/fleet.")
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Advertise = Annotated[
    str, typer.Option(help="HOST or HOST:PORT that others connect to, if not --host: behind NAT, or a proxy.")
]


def coordinator(
    store: StoreUrl,
    host: Host = "127.0.0.1",
    lease: Annotated[float, typer.Option(min=1.0, help="Seconds of silence after which a region is lost.")] = 5.0,
    rule: Rule = "bottom-up",
    state: State = "delta",
    ack_timeout: Annotated[float, typer.Option(help="Seconds that regions have to acknowledge an epoch.")] = 10.0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 0,
    admission: Annotated[
        bool | None, typer.Option(help="Refuse queries that do not fit. Default: if all sites state their capacity.")
    ] = None,
    reoptimise: Annotated[
        bool, typer.Option(help="Move operators when measured rates and latencies make it worth it.")
    ] = False,
    advertise: Advertise = "",
    sinks: Annotated[
        Path | None, typer.Option(help="A file with the sinks of queries: {busy: {parquet: out}}.")
    ] = None,
) -> None:
    """Run the control plane alone, without Spark, until SIGTERM. Processes share a token: GODWIT_FLEET_TOKEN."""
    from godwit.process.serve import serve_coordinator
    from godwit.scenario.sink_file import sinks_of_queries

    options = {"rule": rule, "state": state, "ack_timeout": ack_timeout}
    extras = {"admission": admission, "reoptimise": reoptimise, "sinks": sinks_of_queries(sinks) if sinks else {}}
    serve_coordinator(store, options, host, lease, port, extras, advertise)


def region(
    name: Annotated[str, typer.Option(help="The region's name, as the topology has it.")],
    store: StoreUrl,
    host: Host = "127.0.0.1",
    master: Annotated[str, typer.Option(help="local[2], spark://host:7077, yarn, k8s://...")] = "local[2]",
    memory: Annotated[str, typer.Option(help="Java's heap.")] = "384m",
    keep: Annotated[bool, typer.Option(help="Keep sources and results for ever (the oracle needs them).")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 0,
    advertise: Advertise = "",
    quick: Annotated[
        bool, typer.Option(help="Interpret plans instead of compiling them: for many small queries.")
    ] = False,
    conf: Annotated[list[str] | None, typer.Option(help="More of Spark's settings: spark.executor.memory=2g.")] = None,
) -> None:
    """Run one region with a Spark of its own, until SIGTERM. Processes share a token: GODWIT_FLEET_TOKEN."""
    from godwit import names
    from godwit.engine.java import check_heap
    from godwit.process.serve import serve_region

    names.check("region", name)
    check_heap(memory, "--memory")
    if not master:
        msg = "--master is empty; give local[2], or the URL of a cluster"
        raise ConfigError(msg)
    told = [one.partition("=") for one in conf or ()]
    if wrong := [key for key, equals, _ in told if not (equals and key.startswith("spark."))]:
        msg = f"--conf {wrong[0]}: write --conf spark.NAME=VALUE"
        raise ConfigError(msg)
    settings = {key: value for key, _, value in told}
    serve_region(store, name, host, master, memory, keep, quick, port, advertise, settings)


def forget_region(
    name: Annotated[str, typer.Argument(help="The region's name.")],
    store: StoreUrl,
    devices_to: Annotated[str | None, typer.Option(help="A site of another region, for all its devices.")] = None,
    wait: Annotated[float, typer.Option(help="Seconds that handing over may take.")] = 300.0,
) -> None:
    """A region whose process is gone for good: what it had goes to the others. Needs Spark here."""
    from godwit.process.connect import connect
    from godwit.process.forget_region import forget_region as forget

    with connect(store) as fleet:
        say = partial(typer.echo, err=True)
        typer.echo(forget(fleet, name, devices_to=devices_to, say=say, timeout=wait).text())
