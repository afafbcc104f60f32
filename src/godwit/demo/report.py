"""The demo's last words: what each contender did, query by query and in sum, with the oracle's verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from godwit.api.oracle import Verdict
from godwit.demo.outcome import DemoOutcome
from godwit.demo.queries import Asked
from godwit.demo.view import ms, size


def report(console: Console, queries: Sequence[Asked], outcomes: Sequence[DemoOutcome]) -> None:
    """Two tables: the queries, then the sums."""
    console.print(_queries(queries, outcomes))
    console.print(_sums(outcomes))
    for outcome in outcomes:
        for verdict in outcome.verdicts:
            if not verdict.equal:
                console.print(f"{outcome.name}: {_short(verdict)}", highlight=False)


def _queries(queries: Sequence[Asked], outcomes: Sequence[DemoOutcome]) -> Table:
    table = Table(title="latency p50 / p95 and the oracle's verdict, by query", title_justify="left")
    table.add_column("query", no_wrap=True)
    table.add_column("shape", no_wrap=True)
    for outcome in outcomes:
        table.add_column(outcome.name, justify="right", no_wrap=True)
        table.add_column("results", justify="right")
        table.add_column("oracle")
    for query in queries:
        cells = []
        for outcome in outcomes:
            verdict = next(v for v in outcome.verdicts if v.query == query.name)
            p50, p95 = outcome.latency.get(query.name, (None, None))
            cells += [f"{ms(p50)} / {ms(p95)}", f"{verdict.got:,}", _word(verdict)]
        table.add_row(query.name, query.shape, *cells)
    return table


def _word(verdict: Verdict) -> str:
    return "[green]equal[/]" if verdict.equal else f"[red]{verdict.got} of {verdict.expected}[/]"


def _sums(outcomes: Sequence[DemoOutcome]) -> Table:
    table = Table("", *(outcome.name for outcome in outcomes), title="in sum", title_justify="left")
    for name, values in (
        ("rows in", [f"{o.rows:,}" for o in outcomes]),
        ("results", [f"{o.results:,}" for o in outcomes]),
        ("hand-overs handled in time", [f"{o.handled} of {o.handovers}" for o in outcomes]),
        ("latency calm p50 / p95", [f"{ms(o.calm[0])} / {ms(o.calm[1])}" for o in outcomes]),
        ("latency under hand-overs", [f"{ms(o.moving[0])} / {ms(o.moving[1])}" for o in outcomes]),
        ("state moved", [size(o.state_bytes) if o.state_bytes else "-" for o in outcomes]),
        ("query restarts", [f"{o.restarts:,}" for o in outcomes]),
        ("oracle", [f"{o.equal} of {len(o.verdicts)} queries equal" for o in outcomes]),
        ("", [o.note for o in outcomes]),
    ):
        table.add_row(name, *values)
    return table


def _short(verdict: Verdict) -> str:
    lines = str(verdict).splitlines()
    return "\n".join(lines[:3]) + (f"\n  and {len(lines) - 3} more" if len(lines) > 3 else "")
