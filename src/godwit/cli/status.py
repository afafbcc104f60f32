"""`godwit status FOLDER`: what a fleet does, from its logs; the fleet may run in another process, or not at all."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from godwit.cli.ask import Folder
from godwit.errors import ConfigError, GodwitError
from godwit.observe.status import Ledger, Status, Times
from godwit.storage.open_store import open_store

#: of links and instances the largest are shown
MOST = 20


def status(
    folder: Folder,
    output: Annotated[str, typer.Option("--output", "-o", help="auto, json or table.")] = "auto",
) -> None:
    """Show rows, times, latencies, clocks, links, state, routes of keys and sinks of a fleet."""
    try:
        if output not in ("auto", "json", "table"):
            msg = f"output {output!r} is unknown; use auto, json or table"
            raise ConfigError(msg)
        found = Ledger(open_store(folder)).status()
    except GodwitError as fault:
        typer.echo(f"error: {fault}", err=True)
        raise typer.Exit(1) from None
    if output == "json" or (output == "auto" and not sys.stdout.isatty()):
        typer.echo(json.dumps(found.to_json(), indent=2))
    else:
        render(found, Console())


def render(found: Status, console: Console) -> None:
    """The status as tables for people."""
    console.print(f"[bold]{found.folder}[/]  epoch {found.epoch}")
    for table in (
        _queries(found),
        _flows(found),
        _runners(found),
        _state(found),
        _routes(found),
        _links(found),
        _sinks(found),
    ):
        if table.row_count:
            console.print(table)
    for stream, rows in found.dead.items():
        console.print(f"[yellow]{rows} rows of {stream} did not fit its schema: see dead_letters.jsonl[/]")
    for name, failure in found.failures.items():
        console.print(f"[red]{name} has stopped: {failure}[/]")


def _queries(found: Status) -> Table:
    table = Table("query", "shape", "results", "late", "clock lag", "", title="queries")
    for q in found.queries:
        lag = "-" if q.clock_lag_s is None else f"{q.clock_lag_s:g} s"
        shared = f"shared by {', '.join(q.shared_by)}" if q.shared_by else ""
        note = f"failed: {q.failed}" if q.failed else f"parked: {q.parked}" if q.parked else shared
        table.add_row(q.name, q.shape, f"{q.rows_out:,}", f"{q.rows_late:,}", lag, note)
    return table


def _flows(found: Status) -> Table:
    """What joins and windows were fed: rates and selectivities follow from it."""
    table = Table("query", "operator/input", "rows taken in", title="flows")
    for q in found.queries:
        for where, rows in q.taken.items():
            table.add_row(q.name, where, f"{rows:,}")
    return table


def _runners(found: Status) -> Table:
    heads = ("region", "shape", "batches", "rows in", "rows out", "late", "batch ms", "latency ms", "event latency ms")
    table = Table(*heads, "unread", "state", title="regions (p50 / p95 / p99)")
    for r in found.runners:
        counts = (f"{n:,}" for n in (r.batches, r.rows_in, r.rows_out, r.rows_late))
        times = (_times(t) for t in (r.batch_ms, r.latency_ms, r.event_latency_ms))
        state = f"{sum(r.state_rows.values()):,} rows, {_bytes(sum(r.state_bytes.values()))}"
        table.add_row(r.region, r.shape, *counts, *times, str(r.unread), state)
    return table


def _state(found: Status) -> Table:
    table = Table("instance", "region", "site", "rows", "bytes", title="state")
    for i in sorted(found.state, key=lambda i: -i.bytes)[:MOST]:
        table.add_row(i.instance, i.region, i.site, f"{i.rows:,}", _bytes(i.bytes))
    if (more := len(found.state) - MOST) > 0:
        table.add_row(f"... and {more} more", "", "", "", "")
    return table


def _routes(found: Status) -> Table:
    table = Table("instance", "keys", "region", "site", "how many", "copied to", "hottest", title="routes of keys")
    for r in found.routes[:MOST]:
        hottest = ", ".join(f"{key} {share:.0%}" for key, share in r.hottest)
        count = "-" if r.count is None else f"{r.count:,}"
        table.add_row(r.instance, r.keys, r.region, r.site, count, ", ".join(r.copies), hottest)
    if (more := len(found.routes) - MOST) > 0:
        table.add_row(f"... and {more} more", *[""] * 6)
    return table


def _links(found: Status) -> Table:
    table = Table("link", "bytes", title="links")
    for link, size in sorted(found.links.items(), key=lambda item: -item[1])[:MOST]:
        table.add_row(link, _bytes(size))
    if len(found.links) > MOST:
        table.add_row(f"... and {len(found.links) - MOST} more", _bytes(sum(sorted(found.links.values())[:-MOST])))
    return table


def _sinks(found: Status) -> Table:
    table = Table("query", "sink", "delivers", "commits behind", title="sinks")
    for s in found.sinks:
        table.add_row(s.query, s.sink, "exactly once" if s.exactly_once else "at least once", str(s.behind))
    return table


def _times(times: Times) -> str:
    return " / ".join("-" if t is None else f"{t:,.0f}" for t in (times.p50, times.p95, times.p99))


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
