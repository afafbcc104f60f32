"""`godwit mobility`: build a trace from real towers and a real timetable, or make one up from a seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from godwit.errors import DataError, GodwitError

if TYPE_CHECKING:
    from godwit.mobility.summary import Summary
    from godwit.mobility.twin import MovingWorld

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Traces of devices that hop between base stations.")

Out = Annotated[Path, typer.Option(help="Folder for trace.jsonl, topology.yaml, summary.json and nebula/.")]
Hysteresis = Annotated[float, typer.Option(min=0, help="Leave a tower only for one nearer by this many metres.")]
Speedup = Annotated[float, typer.Option(min=0.001, help="Squeeze time by this factor.")]
Regions = Annotated[int, typer.Option(min=1, help="Edge regions, beside the cloud's.")]


@app.command()
def build(
    towers: Annotated[Path, typer.Option(help="Towers: OpenCelliD's CSV, or any CSV or Parquet with id, lat, lon.")],
    gtfs: Annotated[Path, typer.Option(help="Timetable: a GTFS folder or zip.")],
    out: Out,
    day: Annotated[str, typer.Option(help="A weekday or a date (2026-11-16).")] = "monday",
    lines: Annotated[str, typer.Option(help="Lines by name, with commas between; all if left out.")] = "",
    from_: Annotated[str, typer.Option("--from", help="Start of the window.")] = "00:00",
    to: Annotated[str, typer.Option(help="End of the window; may lie beyond 24:00.")] = "24:00",
    tracks: Annotated[Path | None, typer.Option(help="Stop-to-stop polylines along the tracks (CSV).")] = None,
    hysteresis: Hysteresis = 50.0,
    min_antennas: Annotated[int, typer.Option(help="Leave out towers with fewer antennas.")] = 0,
    speedup: Speedup = 1.0,
    regions: Regions = 2,
    memory: Annotated[str, typer.Option(help="Memory of the Spark driver.")] = "2g",
) -> None:
    """Follow the trips of a timetable from tower to tower, on Spark."""
    for option, path in (("--towers", towers), ("--gtfs", gtfs), ("--tracks", tracks)):
        if path is not None and not path.exists():
            msg = f"{option} {path}: there is no such file or folder; check the path"
            raise DataError(msg)
    from godwit.engine.java import check_heap

    check_heap(memory, "--memory")
    # Spark takes seconds to import and start: not before it is needed.
    from godwit.engine.session import spark_session
    from godwit.mobility.gtfs import Slot, clock_ms
    from godwit.mobility.hierarchy import Hierarchy
    from godwit.mobility.pipeline import STAGES, Request
    from godwit.mobility.pipeline import build as run

    def work(step: Callable[[str], None]) -> Summary:
        names = tuple(name.strip() for name in lines.split(",") if name.strip())
        slot = Slot(day, clock_ms(from_), clock_ms(to), names)
        shape = Hierarchy(regions=regions)
        request = Request(towers, gtfs, slot, out, tracks, hysteresis, min_antennas, speedup, shape)
        step("starting Spark")
        return run(spark_session(app="godwit mobility", memory=memory), request, step)

    _report(work, len(STAGES) + 1, out)


@app.command()
def synth(
    world: Annotated[Literal["ring", "city", "field"], typer.Argument(help="Which world to make.")],
    out: Out,
    devices: Annotated[int, typer.Option(min=1, help="Trains, cars or sensors.")] = 24,
    seconds: Annotated[int, typer.Option(min=1, help="Length of the trace, after the speed-up.")] = 120,
    speedup: Speedup = 10.0,
    hysteresis: Hysteresis = 50.0,
    regions: Regions = 2,
    seed: Annotated[int, typer.Option(help="The same seed makes the same trace.")] = 7,
    towers_per_km: Annotated[float, typer.Option(help="Ring: towers along the track.")] = 3.0,
    lines: Annotated[int, typer.Option(help="Ring: lines on each ring.")] = 2,
    rings: Annotated[int, typer.Option(help="Ring: number of rings.")] = 1,
) -> None:
    """Make up a trace: trains on the ring, cars in a city, or a field of sensors. Needs no data and no Spark."""
    from godwit.mobility.city import City, make_city
    from godwit.mobility.field import Field, make_field
    from godwit.mobility.hierarchy import Hierarchy, write_topology
    from godwit.mobility.nebula import write_nebula
    from godwit.mobility.ring import Ring, make_ring
    from godwit.mobility.summary import summarise
    from godwit.mobility.trace import write_trace
    from godwit.mobility.twin import play, write_calls

    duration = max(int(seconds * speedup), 1)

    def make() -> MovingWorld:
        if world == "ring":
            return make_ring(Ring(devices, lines, rings, towers_per_km, duration, seed))
        if world == "city":
            return make_city(City(cars=devices, duration_s=duration, seed=seed))
        return make_field(Field(sensors=devices, duration_s=duration, seed=seed))

    def work(step: Callable[[str], None]) -> Summary:
        step("world")
        made = make()
        step("hand-overs")
        played = play(made, speedup=speedup, hysteresis_m=hysteresis, shape=Hierarchy(regions=regions))
        step("files")
        out.mkdir(parents=True, exist_ok=True)
        write_trace(played.trace, out / "trace.jsonl")
        write_topology(played.topology, out / "topology.yaml")
        write_nebula(played.trace, played.topology, out / "nebula")
        write_calls(played.calls, out / "calls.jsonl")
        summary = summarise(played.trace)
        (out / "summary.json").write_text(summary.to_json() + "\n", encoding="utf-8")
        return summary

    _report(work, 3, out)


def _report(work: Callable[[Callable[[str], None]], Summary], stages: int, out: Path) -> None:
    """Run with a progress bar on stderr; the summary goes to stdout, an error ends with its message alone."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table

    notes = Console(stderr=True)
    columns = (TextColumn("{task.description:>16}"), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=notes, transient=True) as bar:
            task, done = bar.add_task("", total=stages), count()
            summary = work(lambda stage: bar.update(task, description=stage, completed=next(done)))
    except GodwitError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise typer.Exit(1) from error
    table = Table(show_header=False, title=str(out), title_justify="left")
    for row in summary.rows():
        table.add_row(*row)
    Console().print(table)
