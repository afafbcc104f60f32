"""`godwit nexmark q5`: a query of Nexmark's suite over generated events, its pace and the oracle's verdict."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from godwit.cli.output import Output, as_json, as_table, form


def nexmark(
    query: Annotated[str, typer.Argument(help="q0 to q22.")],
    rate: Annotated[float, typer.Option(help="Events per second of event time.")] = 10_000,
    seconds: Annotated[float, typer.Option(help="How much event time.")] = 30,
    seed: Annotated[int, typer.Option(help="The same seed makes the same events.")] = 0,
    batch: Annotated[float, typer.Option(help="Seconds of event time that are pushed at once.")] = 1.0,
    verdict: Annotated[bool, typer.Option(help="Compare with the same SQL as a batch at the end.")] = True,
    output: Output = "auto",
) -> None:
    """Run a query of Nexmark's suite as fast as it goes. Exit code 1: its results differ from the batch's."""
    from godwit.workloads.base import Settings
    from godwit.workloads.nexmark_suite import suite

    how, settings = form(output), Settings(seed=seed, rate=rate, seconds=seconds)
    workload = suite(query)
    from godwit.api.fleet import Fleet
    from godwit.engine.session import spark_session
    from godwit.ids import RegionId, SiteId
    from godwit.model.topology import Site, Topology

    fleet = Fleet(Path(mkdtemp(prefix="godwit-nexmark-")), spark_session("godwit-nexmark"))
    try:
        fleet.topology.add(Topology.of([Site(SiteId("here"), RegionId("here"), kind="cloud")], []))
        workload.declare(fleet, settings, ["here"])
        handle = fleet.submit(workload.sql, query)
        batches = list(workload.batches(settings, batch))
        began = time.perf_counter()
        for rows in batches:
            for stream, table in rows.items():
                fleet.push(stream, table)
            fleet.process_available()
        fleet.close_sources()
        fleet.process_available()
        took = time.perf_counter() - began
        judged = handle.verdict() if verdict else None
        document = {
            "query": query,
            "events": settings.events,
            "rows": sum(table.num_rows for rows in batches for table in rows.values()),
            "seconds": round(took, 2),
            "events per second": round(settings.events / took),
            "results": handle.results().count(),
            "oracle": "not asked" if judged is None else "equal" if judged.equal else "DIFFERENT",
        }
    finally:
        fleet.stop()
    if how == "json":
        as_json(document)
    else:
        as_table(tuple(document), [tuple(f"{v:,}" if isinstance(v, int) else str(v) for v in document.values())])
    if judged is not None and not judged.equal:
        typer.echo(str(judged))
        raise typer.Exit(1)
