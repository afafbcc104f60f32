"""Rows of a file of this machine, to be sent; the server gives them the types of their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from godwit.errors import SourceError


def rows_of_file(path: Path) -> list[dict[str, Any]]:
    try:
        match path.suffix:
            case ".csv":
                found = pa.csv.read_csv(path)
            case ".parquet":
                found = pa.parquet.read_table(path)
            case ".json" | ".jsonl":
                found = pa.json.read_json(path)
            case other:
                msg = f"'{path}': rows are read from .csv, .json, .jsonl or .parquet, not from '{other}'"
                raise SourceError(msg)
    except (pa.ArrowInvalid, OSError) as error:
        msg = f"'{path}' is not a file of rows: {error}"
        raise SourceError(msg) from error
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
