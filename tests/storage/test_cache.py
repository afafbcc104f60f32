"""Tables that were written or read a moment ago are found without their files being read again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from godwit.errors import MissingFileError
from godwit.storage.cache import TableCache
from godwit.storage.faulty import DiskFault, FaultyDisk
from godwit.storage.memory import MemoryDisk
from godwit.storage.store import Store


def numbers(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


@pytest.fixture
def unreadable() -> Store:
    """Whose files nobody can read: what it answers was kept."""
    return Store(FaultyDisk(MemoryDisk(), [DiskFault("read", "error", lasting=True)]))


def test_what_was_written_is_not_read_again_not_even_by_another_name(unreadable: Store) -> None:
    _, known = unreadable.put_table("a", numbers(1, 2))
    unreadable.link("a", "b")
    for name in ("a", "b"):
        assert unreadable.table(name, known) == numbers(1, 2)


def test_what_was_read_is_kept() -> None:
    disk = MemoryDisk()
    _, known = Store(disk).put_table("a", numbers(1))
    store = Store(FaultyDisk(disk, [DiskFault("read", "error", nth=2)]))
    assert store.table("a", known) == numbers(1)
    assert store.table("a", known) == numbers(1)


def test_a_file_that_was_written_again_is_read_again() -> None:
    """As after a micro-batch that failed and is tried once more, under the same number."""
    store = Store.memory()
    store.put_table("a", numbers(1, 2))
    _, known = Store(store.disk).put_table("a", numbers(3, 4))
    assert store.table("a", known) == numbers(3, 4)


def test_a_file_that_is_gone_is_gone() -> None:
    store = Store.memory()
    _, known = store.put_table("a", numbers(1))
    store.delete("a")
    with pytest.raises(MissingFileError):
        store.table("a", known)


def test_only_so_much_is_kept() -> None:
    cache = TableCache(most=40, most_each=16)
    for name in ("a", "b", "c"):
        cache.keep(name, 1, numbers(1, 2))
    cache.keep("large", 1, numbers(1, 2, 3))
    assert [name for name in ("a", "b", "c", "large") if cache.find(name, 1) is not None] == ["b", "c"]
