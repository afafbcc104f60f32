"""Key sets: keys one by one, a range of hash buckets, or the rest. A set may be *but* for keys that others list.

A key is the tuple of its columns' values in text form, as Spark's CAST to string writes them; NULL is `NULL_KEY`. Its
bucket is a checksum that Python and Spark compute alike, so that both agree on where a key belongs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

#: number of hash buckets; state is kept by bucket, so that moving one key reads one bucket
BUCKETS = 64
#: between the columns of a key, where a bucket is computed; and the text of NULL
KEY_SEPARATOR, NULL_KEY = "\x1f", "\\N"

Key = tuple[str, ...]


@dataclass(frozen=True, order=True)
class Listed:
    """Keys one by one."""

    keys: frozenset[Key]

    def __str__(self) -> str:
        some = [text.replace(KEY_SEPARATOR, "/") for text in self.texts[:5]]
        return ", ".join(some) + (f" and {len(self.keys) - 5} more" if len(self.keys) > 5 else "")

    @cached_property
    def texts(self) -> list[str]:
        """One text per key, in order: made once, for there may be very many."""
        return sorted(map(KEY_SEPARATOR.join, self.keys))

    @cached_property
    def columns(self) -> int | None:
        """How many columns a key has; None: its text does not say where they end."""
        widths = {len(key) for key in self.keys}
        parted = widths != {1} and any(KEY_SEPARATOR in part for key in self.keys for part in key)
        return widths.pop() if len(widths) == 1 and not parted else None

    @cached_property
    def digest(self) -> str:
        """A short identity of the set."""
        known = crc32(KEY_SEPARATOR.join(self.texts).encode())
        return f"{known:08x}-{len(self.keys)}"

    @cached_property
    def buckets(self) -> frozenset[int]:
        return frozenset(map(bucket_of, self.keys))


@dataclass(frozen=True, order=True)
class HashRange:
    """All keys whose bucket is in [low, high), but for some that are listed elsewhere."""

    low: int
    high: int
    but: frozenset[Key] = frozenset()

    def __str__(self) -> str:
        return f"buckets {self.low} to {self.high - 1}"


@dataclass(frozen=True)
class Rest:
    """Every key that no other route names: all, but for these."""

    but: tuple[Listed | HashRange, ...] = ()

    def __str__(self) -> str:
        return "rest"


REST = Rest()
KeySet = Listed | HashRange | Rest


def listed(*keys: str | Key) -> Listed:
    """The set of these keys; one column may be given as it is."""
    return Listed(frozenset((key,) if isinstance(key, str) else tuple(key) for key in keys))


def bucket_of(key: Key) -> int:
    return crc32(KEY_SEPARATOR.join(key).encode()) % BUCKETS


def buckets_of(keys: KeySet) -> frozenset[int]:
    """The buckets in which keys of the set may lie."""
    match keys:
        case Listed():
            return keys.buckets
        case HashRange(low, high):
            return frozenset(range(low, high))
    return frozenset(range(BUCKETS))


def contains(keys: KeySet, key: Key) -> bool:
    match keys:
        case Listed(some):
            return key in some
        case HashRange(low, high, but):
            return low <= bucket_of(key) < high and key not in but
        case Rest(but):
            return not any(contains(other, key) for other in but)


def covers(large: KeySet, small: KeySet) -> bool:
    """Whether the one surely holds every key of the other; False may mean: not known."""
    if large in (small, REST):
        return True
    match large, small:
        case Listed(a), Listed(b):
            return b <= a
        case _, Listed(b):
            return all(contains(large, key) for key in b)
        case HashRange(low, high, but), HashRange(first, last, less):
            return low <= first and last <= high and but <= less
        case Rest(but), HashRange():
            return all(isinstance(b, HashRange) and (b.high <= small.low or small.high <= b.low) for b in but)
        case Rest(but), Rest(less):
            return set(but) <= set(less)
    return False


def overlap(one: KeySet, other: KeySet) -> bool:
    """Whether the two may have a key in common."""
    if isinstance(one, Listed) and isinstance(other, Listed):
        return not one.keys.isdisjoint(other.keys)
    if isinstance(one, Listed):
        return any(contains(other, key) for key in one.keys)
    if isinstance(other, Listed):
        return overlap(other, one)
    if isinstance(one, Rest) or isinstance(other, Rest):
        rest, some = (one, other) if isinstance(one, Rest) else (other, one)
        assert isinstance(rest, Rest)
        return isinstance(some, Rest) or not any(covers(but, some) for but in rest.but)
    return one.low < other.high and other.low < one.high


def ranges(buckets: Iterable[int], but: frozenset[Key] = frozenset()) -> list[HashRange]:
    """Buckets as the fewest ranges; of the excepted keys, each gets those that lie in it."""
    found: list[list[int]] = []
    for bucket in sorted(buckets):
        if found and found[-1][1] == bucket:
            found[-1][1] = bucket + 1
        else:
            found.append([bucket, bucket + 1])
    placed = {key: bucket_of(key) for key in but}
    return [HashRange(a, b, frozenset(k for k, n in placed.items() if a <= n < b)) for a, b in found]
