"""Keys from a file: Parquet, Arrow or CSV with the columns of the key in its order, or a text with one key per line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from godwit.errors import ConfigError


def keys_of(path: Path) -> pa.Table:
    """A row per key; ConfigError says what is wrong with the file."""
    if not path.is_file():
        msg = f"there is no file {path} with keys; give the path of a .parquet, .arrow, .csv or text file"
        raise ConfigError(msg)
    try:
        table = _read(path)
    except (pa.ArrowException, UnicodeDecodeError) as fault:
        msg = f"{path} cannot be read as {path.suffix or 'text'}: {fault}; write one key per row"
        raise ConfigError(msg) from fault
    if not table.num_rows:
        msg = f"{path} has no keys; write one per row"
        raise ConfigError(msg)
    return table


def _read(path: Path) -> pa.Table:
    match path.suffix.lower():
        case ".parquet":
            return pyarrow.parquet.read_table(path)
        case ".arrow" | ".feather":
            return pyarrow.feather.read_table(path)
        case ".csv":
            as_text = pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in _header(path)})
            return pyarrow.csv.read_csv(path, convert_options=as_text)
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return pa.table({"key": pa.array([line for line in lines if line], pa.string())})


def _header(path: Path) -> list[str]:
    """The columns of a CSV file; all are read as texts, so that 007 stays what it is."""
    with pyarrow.csv.open_csv(path) as reader:
        return list(reader.schema.names)
