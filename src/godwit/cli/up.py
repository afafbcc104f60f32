"""`godwit up`, `down` and `ps`: the processes of a fleet file on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from godwit.cli.output import Output, as_json, as_table, form

File = Annotated[Path, typer.Argument(help="The fleet file.")]


def up(file: File = Path("fleet.yaml")) -> None:
    """Start what does not run, and wait until all of it has joined. Logs: STORE/run/NAME.log."""
    from godwit.model.topology_file import load_topology
    from godwit.process.connect import ConnectedFleet
    from godwit.process.fleet_file import load_fleet_file
    from godwit.process.launcher import Launcher

    spec = load_fleet_file(file)
    topology = load_topology(spec.topology) if spec.topology is not None else None  # before anything is started
    launcher = Launcher(spec)
    launcher.up()
    if topology is not None:
        with ConnectedFleet(spec.store, launcher.token()) as fleet:
            if not fleet.deployment.sites:
                fleet.add_topology(topology)
    ps(file, "auto")


def down(file: File = Path("fleet.yaml")) -> None:
    """Stop all of it cleanly, the regions first."""
    from godwit.process.fleet_file import load_fleet_file
    from godwit.process.launcher import Launcher

    Launcher(load_fleet_file(file)).down()


def ps(file: File = Path("fleet.yaml"), output: Output = "auto") -> None:
    """The processes of a fleet: those that run, and those that did."""
    from godwit.process.fleet_file import load_fleet_file
    from godwit.process.launcher import Launcher

    spec = load_fleet_file(file)
    found = Launcher(spec).running()
    if form(output) == "json":
        as_json(
            [
                {
                    "name": one.name, "alive": one.alive, "pid": one.member.pid, "address": one.member.address,
                    "epoch": one.member.epoch, "megabytes": round(one.megabytes), "failures": one.member.failures,
                    "log": str(spec.run / f"{one.name}.log"),
                }
                for one in found
            ]
        )  # fmt: skip
        return
    rows = [
        (
            one.name,
            "runs" if one.alive else "stopped" if one.member.left else "dead",
            str(one.member.pid) if one.alive else "-",
            one.member.address if one.alive else "-",
            str(one.member.epoch),
            f"{one.megabytes:,.0f} MB" if one.alive else "-",
            "; ".join(f"{name}: {why}" for name, why in one.member.failures.items())[:120],
        )
        for one in found
    ]
    as_table(("process", "", "pid", "address", "epoch", "memory", "failures"), rows, title=str(spec.store))
