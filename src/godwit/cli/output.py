"""`-o auto|json|table`: a table on a terminal, JSON for whoever reads by program."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer

from godwit.errors import ConfigError

Form = Literal["json", "table"]
Output = Annotated[str, typer.Option("--output", "-o", help="auto, json or table (auto: a table on a terminal).")]


def form(output: str) -> Form:
    """Which of the two it shall be."""
    if output == "auto":
        return "table" if sys.stdout.isatty() else "json"
    if output in ("json", "table"):
        return output  # type: ignore[return-value]
    msg = f"output {output!r} is unknown; use auto, json or table"
    raise ConfigError(msg)


def as_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def as_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, title=title or None, title_justify="left")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    # Without a terminal nobody wraps lines for us, and a cut cell is a lost result.
    Console(width=None if sys.stdout.isatty() else 160, soft_wrap=False).print(table)
