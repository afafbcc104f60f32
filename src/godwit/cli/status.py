"""`godwit status`: what a fleet does, from its logs (it may run in another process, or not at all) or from a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from godwit.cli.ask import Folder
from godwit.cli.output import Output, as_json, as_table, console, form

if TYPE_CHECKING:
    from rich.console import Console

#: of links, instances and routes the largest are shown
MOST = 20
Told = Mapping[str, Any]
All = Annotated[bool, typer.Option("--all", "-a", help="Regions by shape, flows, state, routes of keys and links too.")]


def status(
    folder: Folder,
    output: Output = "auto",
    everything: All = False,
) -> None:
    """Queries, regions, sinks and faults of a fleet at a glance; with --all also flows, state, keys and links."""
    how = form(output)
    from godwit.observe.status import Ledger
    from godwit.storage.open_store import open_store

    show(Ledger(open_store(folder)).status().to_json(), how, everything)


def show(found: Told, how: str, everything: bool) -> None:
    """The same for a fleet here and behind a server."""
    if how == "json":
        as_json(found)
        return
    render(found, console(), everything)


def render(found: Told, where: Console, everything: bool = True) -> None:
    """The status as tables for people; what needs attention is said last, where it is read first."""
    where.print(f"[bold]{found['folder']}[/]  epoch {found['epoch']}, {_count(found['queries'], 'query', 'queries')}")
    glance: tuple[Callable[[Told], Shown], ...] = (_queries, _regions, _sinks)
    more: tuple[Callable[[Told], Shown], ...] = (_runners, _flows, _state, _routes, _links)
    for make in (*glance, *(more if everything else ())):
        title, heads, rows = make(found)
        if shown := list(rows):
            as_table(heads, shown, f"\n{title}", where)
    for stream, rows in found["dead"].items():
        _note(where, "yellow", f"{rows} rows of {stream} did not fit its schema: see dead_letters.jsonl")
    for text in (text for columns in found.get("unknown", {}).values() for text in columns.values()):
        _note(where, "yellow", text)
    for q in found["queries"]:
        if q["parked"]:
            _note(where, "yellow", f"{q['name']} is suspended: {q['parked']}")
        if q["failed"]:
            _note(where, "red", f"{q['name']} has failed: {q['failed']}")
    for name, failure in found["failures"].items():
        _note(where, "red", f"{name} has stopped: {failure}")


#: a table: its title, its columns (those with > are numbers), its rows
Shown = tuple[str, Sequence[str], Iterable[Sequence[str]]]


def _queries(found: Told) -> Shown:
    heads = ("query", "", ">results", ">late", ">clock lag", ">latency p50 / p95", "")
    return "queries", heads, (_query(found, q) for q in found["queries"])


def _query(found: Told, q: Told) -> Sequence[str]:
    runners = [r["latency_ms"] for r in found["runners"] if r["shape"] == q["shape"]]
    times = max(runners, key=lambda t: t["p50"] or 0.0, default=None)
    word = "failed" if q["failed"] else "suspended" if q["parked"] else "runs"
    lag = "-" if q["clock_lag_s"] is None else f"{q['clock_lag_s']:g} s"
    shared = f"shared with {', '.join(q['shared_by'])}" if q["shared_by"] else ""
    return q["name"], word, f"{q['rows_out']:,}", f"{q['rows_late']:,}", lag, _two(times), shared


def _regions(found: Told) -> Shown:
    """All shapes of a region together."""
    by_region: dict[str, list[Told]] = {}
    for r in found["runners"]:
        by_region.setdefault(r["region"], []).append(r)
    heads = ("region", ">shapes", ">micro-batches", ">rows in", ">rows out", ">unread", ">state")
    return "regions", heads, (_region(name, those) for name, those in by_region.items())


def _region(name: str, those: Sequence[Told]) -> Sequence[str]:
    sums = (f"{sum(r[column] for r in those):,}" for column in ("batches", "rows_in", "rows_out", "unread"))
    rows, size = (sum(sum(r[column].values()) for r in those) for column in ("state_rows", "state_bytes"))
    return name, str(len(those)), *sums, f"{rows:,} rows, {as_bytes(size)}"


def _sinks(found: Told) -> Shown:
    return "sinks", ("query", "sink", "delivers", ">commits behind"), (
        (s["query"], s["sink"], "exactly once" if s["exactly_once"] else "at least once", str(s["behind"]))
        for s in found["sinks"]
    )  # fmt: skip


def _runners(found: Told) -> Shown:
    heads = ("region", "shape", ">batches", ">rows in", ">rows out", ">late", ">batch ms", ">latency ms")
    rows = (
        (
            r["region"], r["shape"], *(f"{r[n]:,}" for n in ("batches", "rows_in", "rows_out", "rows_late")),
            *(_times(r[n]) for n in ("batch_ms", "latency_ms", "event_latency_ms")),
            str(r["unread"]), f"{sum(r['state_rows'].values()):,} rows, {as_bytes(sum(r['state_bytes'].values()))}",
        )
        for r in found["runners"]
    )  # fmt: skip
    return "shapes by region (p50 / p95 / p99)", (*heads, ">event latency ms", ">unread", ">state"), rows


def _flows(found: Told) -> Shown:
    """What joins and windows were fed: rates and selectivities follow from it."""
    rows = ((q["name"], at, f"{rows:,}") for q in found["queries"] for at, rows in q["taken"].items())
    return "flows", ("query", "operator/input", ">rows taken in"), rows


def _state(found: Told) -> Shown:
    held = sorted(found["state"], key=lambda i: -i["bytes"])
    rows = [(i["instance"], i["region"], i["site"], f"{i['rows']:,}", as_bytes(i["bytes"])) for i in held]
    return "state", ("instance", "region", "site", ">rows", ">bytes"), _largest(rows)


def _routes(found: Told) -> Shown:
    heads = ("instance", "keys", "region", "site", ">how many", "copied to", "hottest")
    rows = [
        (
            r["instance"], r["keys"], r["region"], r["site"], "-" if r["count"] is None else f"{r['count']:,}",
            ", ".join(r["copies"]), ", ".join(f"{key} {share:.0%}" for key, share in r["hottest"]),
        )
        for r in found["routes"]
    ]  # fmt: skip
    return "routes of keys", heads, _largest(rows)


def _links(found: Told) -> Shown:
    links = sorted(found["links"].items(), key=lambda item: -item[1])
    return "links", ("link", ">bytes"), _largest([(link, as_bytes(size)) for link, size in links])


def _largest(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    left = len(rows) - MOST
    return [*rows[:MOST], *([(f"... and {left} more", *[""] * (len(rows[0]) - 1))] if left > 0 else [])]


def _note(where: Console, colour: str, text: str) -> None:
    where.print(text, style=colour, markup=False, highlight=False)


def _count(things: Sequence[Any], one: str, many: str) -> str:
    return f"{len(things)} {one if len(things) == 1 else many}"


def _times(times: Told) -> str:
    return " / ".join("-" if (t := times[p]) is None else f"{t:,.0f}" for p in ("p50", "p95", "p99"))


def _two(times: Told | None) -> str:
    return "-" if times is None or times["p50"] is None else f"{times['p50']:,.0f} / {times['p95']:,.0f} ms"


def as_bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
