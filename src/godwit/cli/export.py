"""`godwit export FOLDER TARGET`: a savepoint of a fleet that is not running."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from godwit.maintenance.savepoint import export as copied


def export(
    folder: Annotated[Path, typer.Argument(help="The fleet's folder; nothing may run in it.")],
    target: Annotated[Path, typer.Argument(help="Where the copy goes: an empty folder, or one that is not there.")],
) -> None:
    """Copy a fleet with everything that it knows. The copy is opened like the original."""
    size = copied(folder, target)
    typer.echo(f"{target}: {size / 1e6:,.1f} MB; open it as you opened {folder}")
