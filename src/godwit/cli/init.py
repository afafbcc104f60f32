"""`godwit init`: a commented project to start from, which runs as it is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from godwit.errors import ConfigError

#: template -> where it goes
FILES = {"scenario.yaml": "scenario.yaml", "counts.jsonl": "counts.jsonl", "readme.md": "README.md"}


def init(folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.")] = Path(".")) -> None:
    """Write a scenario with topology, stream, query and recorded rows, each line explained."""
    there = [name for name in FILES.values() if (folder / name).exists()]
    if there:
        msg = f"{folder} has {', '.join(there)} already; choose another folder, or move them away"
        raise ConfigError(msg)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder} cannot be made: {error.strerror}; choose another folder"
        raise ConfigError(msg) from error
    for template, name in FILES.items():
        text = files("godwit.cli").joinpath("project", template).read_text(encoding="utf-8")
        (folder / name).write_text(text, encoding="utf-8")
        typer.echo(f"wrote {folder / name}")
    typer.echo(f"try: godwit run {folder / 'scenario.yaml'}")
