"""`godwit demo`: trains on the ring, a dozen queries, three regions; ends with the oracle's verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from godwit.errors import ConfigError


def demo(
    seconds: Annotated[int, typer.Option(help="How long each contender runs.")] = 40,
    trains: Annotated[int, typer.Option(help="Trains on the ring; up to eight have a query of their own.")] = 8,
    native: Annotated[bool, typer.Option(help="Run plain Spark queries on the same rows afterwards.")] = True,
    realtime: Annotated[bool, typer.Option(help="Play the trace at its own pace, not thirty times faster.")] = False,
    real_data: Annotated[
        Path | None, typer.Option(help="Folder with base_stations_berlin_ring.csv, gtfs/ and track_segments.csv.gz.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed makes the same world.")] = 7,
    folder: Annotated[Path | None, typer.Option(help="Keep the fleet here, not in a temporary folder.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder of the pictures; default: beside the fleet.")] = None,
    page: Annotated[bool, typer.Option(help="Serve the page while the trains run, and print its address.")] = True,
) -> None:
    """Trains on a ring, a dozen queries, three regions, and the oracle's verdict."""
    if real_data is not None and not (real_data / "base_stations_berlin_ring.csv").is_file():
        msg = f"--real-data {real_data} has no base_stations_berlin_ring.csv; give the folder with the three data sets"
        raise ConfigError(msg)
    from rich.console import Console

    from godwit.demo.show import DemoOptions, show
    from godwit.demo.world import SPEEDUP, Setting

    if seconds < 15:
        msg = f"--seconds {seconds} is too short for a calm part and a busy one; use 15 or more"
        raise ConfigError(msg)
    if folder is not None and (folder / "fleet").exists():
        msg = f"{folder / 'fleet'} exists already; remove it or give another --folder"
        raise ConfigError(msg)
    setting = Setting(
        trains=trains, seconds=seconds, calm_s=max(seconds // 4, 4), speedup=1.0 if realtime else SPEEDUP, seed=seed
    )
    # Without a terminal rich would squeeze the tables into 80 columns.
    console = Console() if sys.stdout.isatty() else Console(width=140)
    outcomes = show(DemoOptions(setting, native, folder, real_data, plots, page), console)
    if outcomes[0].equal < len(outcomes[0].verdicts):
        raise typer.Exit(1)
