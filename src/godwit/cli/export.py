"""`godwit export FOLDER TARGET` and `godwit import SOURCE FOLDER`: a savepoint of a fleet that is not running."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[str, typer.Argument(help="The fleet's folder; nothing may run in it.")],
    target: Annotated[Path, typer.Argument(help="Where the copy goes: a new folder, or a file named like x.tar.gz.")],
) -> None:
    """Copy a fleet with everything that it knows. The copy is opened like the original."""
    from godwit.errors import ConfigError
    from godwit.maintenance.savepoint import export as copied
    from godwit.storage.open_store import folder_of, is_folder
    from godwit.storage.urls import shown

    if not is_folder(folder):
        msg = f"only a fleet in a folder can be exported; {shown(folder)} lies on a server: copy it there"
        raise ConfigError(msg)
    size = copied(folder_of(folder) if ":" in folder else Path(folder), target)
    how = f"`godwit import {target} FOLDER`" if target.is_file() else f"open it as you opened {folder}"
    typer.echo(f"{target}: {size / 1e6:,.1f} MB; {how}")


def import_(
    source: Annotated[Path, typer.Argument(help="What `godwit export` has written: a file, or a folder.")],
    folder: Annotated[Path, typer.Argument(help="Where the fleet shall be: a new folder.")],
) -> None:
    """Make a fleet of a savepoint. It goes on where the first one was when it was exported."""
    from godwit.maintenance.savepoint import restore

    size = restore(source, folder)
    typer.echo(f"{folder}: {size / 1e6:,.1f} MB; verified")
