"""The demo from end to end: make the world, run the fleet, run plain Spark on the same rows, compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from rich.console import Console

from godwit.demo.outcome import DemoOutcome
from godwit.demo.queries import Asked, asked
from godwit.demo.report import report
from godwit.demo.view import View
from godwit.demo.world import DemoStage, Setting, real_stage, ring_stage
from godwit.mobility.summary import summarise


@dataclass(frozen=True)
class DemoOptions:
    """What `godwit demo` was asked for."""

    setting: Setting
    native: bool = True
    folder: Path | None = None
    real_data: Path | None = None
    #: where the pictures go; None: the demo's own folder
    plots: Path | None = None
    #: serve the page while the trace is played
    page: bool = True


def show(options: DemoOptions, console: Console) -> list[DemoOutcome]:
    """Run it and print what happened; the caller decides on the exit code."""
    say = _clock(console)
    folder = Path(options.folder or mkdtemp(prefix="godwit-demo-"))
    say("making the ring" if options.real_data is None else f"reading {options.real_data} on Spark")
    if options.real_data is None:
        stage = ring_stage(options.setting)
        _introduce(console, stage)
        say("starting Spark")
    # Only now: importing and starting Spark takes seconds, and the first words should not wait for it.
    from godwit.demo import ours
    from godwit.engine.session import spark_session
    from godwit.server.background import page_of

    spark = spark_session("godwit-demo", quick=True)
    if options.real_data is not None:
        stage = real_stage(spark, options.real_data, options.setting, folder / "trace")
        _introduce(console, stage)
    queries = asked(stage)
    say("placing the queries")
    fleet = ours.prepare(spark, folder / "fleet", stage, queries)
    say("warming up: one count of every train through every plan")
    ours.warm_up(fleet, stage)
    say(f"go: {stage.calm_s} s of calm, then hand-overs")
    with page_of(fleet) if options.page else nullcontext() as address:
        if address is not None:
            say(f"watch it in a browser: {address}")
        with View(console, stage.topology) as view:
            played = ours.play(fleet, stage, queries, options.setting.seed, view)
    say("closing the last windows, asking the oracle")
    outcomes = [ours.finish(fleet, stage, played, queries)]
    if options.native:
        outcomes.append(_native(spark, folder, stage, queries, options, console, say))
    report(console, queries, outcomes)
    _draw(console, outcomes, options.plots or folder)
    console.print(f"the fleet's folder is {folder / 'fleet'}: try `godwit history {folder / 'fleet'}`", soft_wrap=True)
    say("done")
    return outcomes


def _native(
    spark: object,
    folder: Path,
    stage: DemoStage,
    queries: list[Asked],
    options: DemoOptions,
    console: Console,
    say: Callable[[str], None],
) -> DemoOutcome:
    from godwit.demo import native

    say("the same with plain Spark streaming queries, restarted at hand-overs (native-restart)")
    with View(console, stage.topology) as view:
        return native.play(spark, folder / "native", stage, queries, options.setting.seed, view, say)  # type: ignore[arg-type]


def _draw(console: Console, outcomes: list[DemoOutcome], folder: Path) -> None:
    try:
        from godwit.demo.plots import draw
    except ImportError:
        console.print("no pictures: matplotlib is not installed; `make setup` or `pip install matplotlib` does it")
        return
    for picture in draw(outcomes, folder):
        console.print(f"picture: {picture}", highlight=False, soft_wrap=True)


def _introduce(console: Console, stage: DemoStage) -> None:
    queries = asked(stage)
    figures = summarise(stage.trace)
    regions = ", ".join(stage.topology.regions)
    shapes = len({query.shape for query in queries})
    console.print(
        f"{figures.devices} trains on the ring, {len(stage.topology.sites)} sites in {regions}; "
        f"{figures.handovers} hand-overs in {figures.duration_s:.0f} s; {len(queries)} queries of {shapes} shapes",
        highlight=False,
        soft_wrap=True,
    )


def _clock(console: Console) -> Callable[[str], None]:
    started = time.monotonic()

    def say(what: str) -> None:
        console.print(f"[dim]{time.monotonic() - started:5.1f} s[/] {what}", highlight=False, soft_wrap=True)

    return say
