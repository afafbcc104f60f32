"""`-o auto|json|table`: a table on a terminal, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from godwit.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

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


def as_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "", where: Console | None = None
) -> None:
    """Columns that begin with > are numbers."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0)
    )
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    (where or console()).print(table)


def console() -> Console:
    """Without a terminal lines are not wrapped, and a cut cell is a lost result."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, soft_wrap=False)
