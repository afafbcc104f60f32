"""Results on the terminal, a table a commit. At least once: after a crash, the last commits may be shown again."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from godwit.delivery.sinks.base import ResultBatch, ResultSink

if TYPE_CHECKING:
    from rich.console import Console


class ConsoleSink(ResultSink):
    """Shows up to `rows` rows of each commit, and how many more there are."""

    exactly_once: ClassVar[bool] = False

    def __init__(self, rows: int = 20, console: Console | None = None) -> None:
        from rich.console import Console

        self._rows, self._console = rows, console or Console()
        self.name = "console"

    def write(self, batch: ResultBatch) -> None:
        from rich.table import Table

        shown, more = Table(*batch.columns, title=f"{batch.query} · {batch.region} · {batch.number}"), 0
        for table in batch.tables():
            some = table.slice(0, max(self._rows - shown.row_count, 0))
            for row in some.to_pylist():
                shown.add_row(*(str(row[column]) for column in batch.columns))
            more += table.num_rows - some.num_rows
        if shown.row_count:
            self._console.print(shown)
        if more:
            self._console.print(f"... and {more} more rows")
