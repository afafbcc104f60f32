"""Results as a Delta Lake table. Exactly-once: a commit's number is the version of an application transaction.

Results that replace each other are appended as they come, with `__version` and `__deleted`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from godwit.delivery.sinks.base import ResultBatch
from godwit.delivery.sinks.named_run import NamedRunSink
from godwit.drivers import driver


class DeltaSink(NamedRunSink):
    """Appends to the table at `uri` (a folder, or what deltalake takes with `options`); made by the first results."""

    exactly_once: ClassVar[bool] = True

    def __init__(self, uri: str | Path, options: dict[str, str] | None = None) -> None:
        self._uri, self._options = str(uri), options
        self._deltalake = driver("deltalake")
        self.name = f"delta:{self._uri}"

    def write(self, batch: ResultBatch) -> None:
        tables = list(batch.tables())
        if not tables:
            return
        application = f"godwit.{self._run}.{batch.scope}"
        if (known := self._table()) is not None:
            before = known.transaction_version(application)
            if before is not None and before >= batch.number:
                return  # it came through before
        transaction = self._deltalake.Transaction(app_id=application, version=batch.number)
        self._deltalake.write_deltalake(
            known if known is not None else self._uri,
            pa.concat_tables(tables),
            mode="append",
            storage_options=None if known is not None else self._options,
            commit_properties=self._deltalake.CommitProperties(app_transactions=[transaction]),
        )

    def _table(self) -> Any:
        """The table as it is now; None: it is not there."""
        if not self._deltalake.DeltaTable.is_deltatable(self._uri, self._options):
            return None
        return self._deltalake.DeltaTable(self._uri, storage_options=self._options)
