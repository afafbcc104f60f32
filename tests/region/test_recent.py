"""Tables that were written or read a moment ago are found without their files being read again."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from godwit.storage.cache import Recent


def written(path: Path, *numbers: int) -> pa.Table:
    table = pa.table({"n": pa.array(numbers, pa.int64())})
    pq.write_table(table, path)
    return table


def never(file: str) -> pa.Table:
    msg = f"{file} was read"
    raise AssertionError(msg)


def test_what_was_kept_is_not_read_again_not_even_by_another_name(tmp_path: Path) -> None:
    recent, file = Recent(), tmp_path / "a.parquet"
    recent.keep(str(file), written(file, 1, 2))
    os.link(file, tmp_path / "b.parquet")
    for name in ("a", "b"):
        assert recent.table(str(tmp_path / f"{name}.parquet"), never)["n"].to_pylist() == [1, 2]


def test_what_was_read_is_kept(tmp_path: Path) -> None:
    recent, file = Recent(), tmp_path / "a.parquet"
    written(file, 1)
    assert recent.table(str(file), pq.read_table)["n"].to_pylist() == [1]
    assert recent.table(str(file), never)["n"].to_pylist() == [1]


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path) -> None:
    """As after a micro-batch that failed and is tried once more, under the same number."""
    recent, file = Recent(), tmp_path / "a.parquet"
    recent.keep(str(file), written(file, 1, 2))
    file.unlink()
    written(file, 3, 4)
    assert recent.table(str(file), pq.read_table)["n"].to_pylist() == [3, 4]


def test_a_file_that_is_gone_is_gone(tmp_path: Path) -> None:
    recent, file = Recent(), tmp_path / "a.parquet"
    recent.keep(str(file), written(file, 1))
    file.unlink()
    with pytest.raises(FileNotFoundError):
        recent.table(str(file), never)


def test_only_so_much_is_kept(tmp_path: Path) -> None:
    recent, files = Recent(most=40, most_each=16), [tmp_path / f"{n}.parquet" for n in range(3)]
    for file in files:
        recent.keep(str(file), written(file, 1, 2))
    large = tmp_path / "large.parquet"
    recent.keep(str(large), written(large, 1, 2, 3))
    for file in files[1:]:
        assert recent.table(str(file), never)["n"].to_pylist() == [1, 2]
    for file in (files[0], large):
        with pytest.raises(AssertionError, match="was read"):
            recent.table(str(file), never)
