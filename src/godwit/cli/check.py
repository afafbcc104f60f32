"""`godwit check FOLDER`: whether everything in a fleet's folder is as it was written; `--repair` mends what it can."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from godwit.cli.output import Output, as_json, as_table, form
from godwit.errors import ConfigError

if TYPE_CHECKING:
    from godwit.maintenance.integrity import Finding


def check(
    folder: Annotated[Path, typer.Argument(help="The fleet's folder.")],
    mend: Annotated[
        bool, typer.Option("--repair", help="Repair what can be computed or delivered again; the fleet must not run.")
    ] = False,
    output: Output = "auto",
) -> None:
    """Read and verify every record and file of a fleet. Ends with 1 if something is damaged (and was not mended)."""
    if not folder.is_dir():
        msg = f"there is no folder {folder}; give the folder that the fleet was opened with"
        raise ConfigError(msg)
    from godwit.maintenance.check import findings
    from godwit.maintenance.repair import repair
    from godwit.storage.lock import FolderLock
    from godwit.storage.store import Store

    how, found, told = form(output), findings(Store.local(folder)), list[str]()
    if mend and found:
        lock = FolderLock(folder)
        lock.take()
        try:
            told = repair(Store.local(folder), found)
            left = findings(Store.local(folder))
        finally:
            lock.release()
    else:
        left = found
    if how == "json":
        as_json({"found": [_json(f) for f in found], "repair": told, "left": [_json(f) for f in left]})
    else:
        _show(found, told)
    if any(f.severity == "error" for f in left):
        raise typer.Exit(1)


def _json(finding: Finding) -> dict[str, object]:
    return {**asdict(finding), "shapes": sorted(finding.shapes)}


def _show(found: list[Finding], told: list[str]) -> None:
    if not found:
        typer.echo("everything is as it was written")
        return
    as_table(("severity", "where", "what", "remedy"), [(f.severity, f.where, f.what, f.remedy) for f in found])
    for line in told:
        typer.echo(line)
