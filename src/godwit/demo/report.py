"""The demo's last words: what each contender did, query by query and in sum, with the oracle's verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from godwit.api.oracle import Verdict
from godwit.demo.answers import Pair, pair
from godwit.demo.moves import StateMove
from godwit.demo.outcome import DemoOutcome
from godwit.demo.queries import Asked
from godwit.demo.view import ms, size

#: number of wrong queries of a contender that are shown with rows
MOST_SHOWN = 2


def report(console: Console, queries: Sequence[Asked], outcomes: Sequence[DemoOutcome]) -> None:
    """Two tables: the queries, then the sums."""
    console.print(_queries(queries, outcomes))
    console.print(_sums(outcomes))
    for outcome in outcomes:
        wrong = [verdict for verdict in outcome.verdicts if not verdict.equal]
        for verdict in wrong[:MOST_SHOWN]:
            console.print(f"{outcome.name}: {_short(verdict)}", highlight=False)
        if len(wrong) > MOST_SHOWN:
            console.print(f"{outcome.name}: and {len(wrong) - MOST_SHOWN} more queries", highlight=False)


def _queries(queries: Sequence[Asked], outcomes: Sequence[DemoOutcome]) -> Table:
    table = Table(
        title="added latency p50 / p95 (beyond what the query must wait for) and the oracle's verdict, by query",
        title_justify="left",
    )
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
            added = outcome.quantiles("added", query=query.name)
            cells += [_both(added), f"{verdict.got:,}", _word(verdict)]
        table.add_row(query.name, query.shape, *cells)
    return table


def _word(verdict: Verdict) -> str:
    return "[green]equal[/]" if verdict.equal else f"[red]{verdict.got} of {verdict.expected}[/]"


def _sums(outcomes: Sequence[DemoOutcome]) -> Table:
    table = Table("", *(outcome.name for outcome in outcomes), title="in sum", title_justify="left")
    for name, values in (
        ("rows in", [f"{o.rows:,}" for o in outcomes]),
        ("results", [f"{o.results:,}" for o in outcomes]),
        ("latency p50 / p95, calm", [_both(o.quantiles("latency", calm=True)) for o in outcomes]),
        ("  the query must wait for", [_both(o.quantiles("waits", calm=True)) for o in outcomes]),
        ("  added", [_both(o.quantiles("added", calm=True)) for o in outcomes]),
        ("latency p50 / p95, under hand-overs", [_both(o.quantiles("latency", calm=False)) for o in outcomes]),
        ("  the query must wait for", [_both(o.quantiles("waits", calm=False)) for o in outcomes]),
        ("  added", [_both(o.quantiles("added", calm=False)) for o in outcomes]),
        ("hand-overs handled in time", [f"{o.handled} of {len(o.handovers)}" for o in outcomes]),
        ("moves to another region, with state", [_moves(o.moves) for o in outcomes]),
        ("  state moved", [size(sum(m.bytes for m in o.moves)) if o.moves else "-" for o in outcomes]),
        ("  in force after p50 / p95", [_both(pair([m.in_force_ms for m in o.moves])) for o in outcomes]),
        ("  state there after p50 / p95", [_both(pair(_arrived(o.moves))) for o in outcomes]),
        ("query restarts", [f"{o.restarts:,}" for o in outcomes]),
        ("oracle", [f"{o.equal} of {len(o.verdicts)} queries equal" for o in outcomes]),
        ("", [o.note for o in outcomes]),
    ):
        table.add_row(name, *values)
    return table


def _both(values: Pair) -> str:
    return f"{ms(values[0])} / {ms(values[1])}" if values[0] is not None else "-"


def _moves(moves: Sequence[StateMove]) -> str:
    return f"{len(moves)}, {sum(m.bytes > 0 for m in moves)}" if moves else "-"


def _arrived(moves: Sequence[StateMove]) -> list[float]:
    return [move.state_ms for move in moves if move.state_ms is not None]


def _short(verdict: Verdict) -> str:
    lines = str(verdict).splitlines()
    return "\n".join(lines[:3]) + (f"\n  and {len(lines) - 3} more" if len(lines) > 3 else "")
