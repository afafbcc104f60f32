"""Results as an Iceberg table. Exactly-once: rows, and the commit's number as a property, are one change of the table.

The number is a property of the table, which outlives its snapshots, and of the snapshot, for those who look where rows
came from. Results that replace each other are appended as they come, with `__version` and `__deleted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from godwit.delivery.sinks.base import ResultBatch
from godwit.delivery.sinks.named_run import NamedRunSink
from godwit.drivers import driver


class IcebergSink(NamedRunSink):
    """Appends to `table` ("fleet.delta") of a catalog, which pyiceberg opens by its properties: {"type": "sql", ...};
    "name" is what it is called (default)."""

    exactly_once: ClassVar[bool] = True

    def __init__(self, table: str, catalog: Mapping[str, str]) -> None:
        self._identifier = table if "." in table else f"default.{table}"
        self._properties = dict(catalog)
        self._open_catalog = driver("pyiceberg.catalog").load_catalog
        self._missing = driver("pyiceberg.exceptions").NoSuchTableError
        self._table: Any = None
        self.name = f"iceberg:{self._properties.get('uri', '')}/{self._identifier}"

    def close(self) -> None:
        self._table = None

    def write(self, batch: ResultBatch) -> None:
        tables = list(batch.tables())
        if not tables:
            return
        rows = pa.concat_tables(tables)
        table = self._found(rows.schema)
        noted = f"godwit.{self._run}.{batch.scope}"
        if int(table.properties.get(noted, 0)) >= batch.number:
            return  # it came through before
        with table.transaction() as change:
            change.append(rows, snapshot_properties={noted: str(batch.number)})
            change.set_properties({noted: str(batch.number)})

    def _found(self, schema: pa.Schema) -> Any:
        """The table as it is now; made if it is not there."""
        if self._table is not None:
            self._table.refresh()
            return self._table
        catalog = self._open_catalog(**{"name": "default", **self._properties})
        try:
            self._table = catalog.load_table(self._identifier)
        except self._missing:
            catalog.create_namespace_if_not_exists(self._identifier.rpartition(".")[0])
            self._table = catalog.create_table(self._identifier, schema)
        return self._table
