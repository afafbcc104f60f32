"""`godwit table`: load a file into a reference table of a running fleet, from another process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from godwit.cli.ask import Folder, Wait, answered


def table(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The table's name.")],
    file: Annotated[Path, typer.Argument(help="Its rows: .csv, .json (one row a line), .jsonl or .parquet.")],
    whole: Annotated[bool, typer.Option(help="The file has all rows: what it does not have is taken out.")] = False,
    wait: Wait = 60.0,
) -> None:
    """Put the rows of a file into a reference table of a running fleet."""
    from godwit.control.commands import LoadTable

    answered(folder, LoadTable(name, str(file.resolve()), whole), wait)
