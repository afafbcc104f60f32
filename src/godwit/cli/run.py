"""`godwit run`: a scenario from its file to a summary and the oracle's verdicts."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.cli.output import Output, as_json, as_table, form

if TYPE_CHECKING:
    from godwit.scenario.run import Ran


def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).")],
    folder: Annotated[
        Path | None,
        typer.Option(help="Keep logs, state and results here; an existing fleet in this folder is resumed."),
    ] = None,
    speed: Annotated[float | None, typer.Option(help="Playback speed factor; overrides the file.")] = None,
    as_fast: Annotated[bool, typer.Option("--as-fast-as-possible", help="Do not wait for the trace's time.")] = False,
    verdicts: Annotated[bool, typer.Option(help="Compare with the same SQL as a batch at the end.")] = True,
    output: Output = "auto",
) -> None:
    """Run a scenario file and compare its results with the oracle. Exit code 1: a result differs."""
    from godwit.scenario.spec import load_scenario

    how = form(output)
    loaded = load_scenario(scenario)
    root = folder or Path(mkdtemp(prefix="godwit-run-"))
    typer.echo(f"running {scenario} in {root}", err=True)
    from godwit.engine.session import spark_session
    from godwit.scenario.run import play

    started = time.monotonic()
    spark = spark_session("godwit-run")
    ran = play(loaded, spark, root, speed=speed, as_fast=as_fast, judge=verdicts)
    _print(how, ran, time.monotonic() - started, root)
    if any(not verdict.equal for verdict in ran.verdicts):
        raise typer.Exit(1)


def _print(how: str, ran: Ran, seconds: float, root: Path) -> None:
    if how == "json":
        as_json(_document(ran, seconds, root))
        return
    rows = []
    for query in ran.queries:
        verdict = next((v for v in ran.verdicts if v.query == query), None)
        word = "not asked" if verdict is None else "equal" if verdict.equal else "DIFFERENT"
        p50, p95, _ = ran.latency.get(query, (None, None, None))
        rows.append((query, f"{ran.results[query]:,}", f"{_ms(p50)} / {_ms(p95)}", word))
    as_table(("query", "results", "latency p50 / p95", "oracle"), rows, title=f"{root}, {seconds:.1f} s")
    for name, value in _sums(ran).items():
        typer.echo(f"{name}: {value}")
    for query, why in ran.parked.items():
        typer.echo(f"suspended: {query}: {why}")
    for verdict in ran.verdicts:
        if not verdict.equal:
            typer.echo(str(verdict))


def _sums(ran: Ran) -> dict[str, Any]:
    return {
        "rows in": f"{ran.rows:,}",
        "dead letters": ran.dead,
        "late rows": ran.late,
        "hand-overs": ran.handovers,
        "reconfigurations": ran.reconfigurations,
    }


def _document(ran: Ran, seconds: float, root: Path) -> dict[str, Any]:
    found = [
        {
            "query": v.query,
            "equal": v.equal,
            "expected": v.expected,
            "got": v.got,
            "missing": v.missing,
            "surplus": v.surplus,
        }
        for v in ran.verdicts
    ]
    return {
        "folder": str(root),
        "seconds": round(seconds, 1),
        "rows": ran.rows,
        "dead": ran.dead,
        "late": ran.late,
        "handovers": ran.handovers,
        "reconfigurations": ran.reconfigurations,
        "results": dict(ran.results),
        "latency_ms": {q: dict(zip(("p50", "p95", "p99"), found, strict=True)) for q, found in ran.latency.items()},
        "parked": dict(ran.parked),
        "verdicts": found,
    }


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} ms"
