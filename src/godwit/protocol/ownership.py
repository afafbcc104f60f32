"""Who owned which keys of an instance, and since when: what gives every row of state its generation.

A row's generation is the epoch since which its region owns the row's key. It is looked up by the epoch under which the
row was routed, so a history must reach back as far as rows may still come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from godwit.ids import Epoch, RegionId
from godwit.model.codec import decode, encode
from godwit.model.keys import REST, Key, KeySet, contains, covers, overlap


class Owned(NamedTuple):
    """From an epoch on, a region processes these keys."""

    since: Epoch
    region: RegionId
    keys: KeySet = REST
    #: a copy of their state was begun: what is newer is told apart until they go or the copy is given up
    copied: bool = False


#: oldest first
History = tuple[Owned, ...]


def generation(history: Iterable[Owned], region: RegionId, key: Key, epoch: Epoch) -> Epoch:
    """Since when the region owned a key under an epoch; 0: from the beginning."""
    found = [o.since for o in history if o.region == region and o.since <= epoch and contains(o.keys, key)]
    return max(found, default=Epoch(0))


def generations(history: Iterable[Owned], region: RegionId, epoch: Epoch) -> list[tuple[KeySet, Epoch]]:
    """The same as rules: the first whose keys a row's are among says its generation; none: 0."""
    found = [(o.keys, o.since) for o in history if o.region == region and o.since <= epoch]
    found.reverse()
    everything = next((k for k, (keys, _) in enumerate(found) if keys == REST), len(found))
    return found[: everything + 1]


def trimmed(
    history: History, region: RegionId, drained: Epoch, everywhere: Epoch, moving: Sequence[KeySet] | None = None
) -> History:
    """What rows can still ask for. `drained`: the operator's marker here; `everywhere`: the least of all markers here.

    Rows that come from now on were routed at or after the marker. Of what happened before it matters when this region
    last got a key, unless it gave the key away since. What is not ours is kept until others have heard of the epoch.
    Where rows need not be told apart by the time at which they came together (`moving` is not None: the keys whose
    state is on its way), keys that have settled are forgotten, too: a million of them cost nothing.
    """
    kept = []
    for number, one in enumerate(history):
        later = history[number + 1 :]
        given = any(o.since <= drained and covers(o.keys, one.keys) for o in later)
        needed = one.region == region and not given
        if one.since > min(drained, everywhere) or (needed and not _settled(one, moving)):
            kept.append(one)
    return tuple(kept)


def _settled(one: Owned, moving: Sequence[KeySet] | None) -> bool:
    if moving is None or one.keys == REST or one.copied:
        return False
    return not any(overlap(one.keys, keys) for keys in moving)


def history_to_json(history: History) -> list[Any]:
    return [_row(one) for one in history]


def _row(one: Owned) -> list[Any]:
    if one.keys == REST and not one.copied:
        return [one.since, one.region]
    return [one.since, one.region, encode(one.keys), *([True] if one.copied else [])]


def history_from_json(record: Iterable[Any]) -> History:
    return tuple(Owned(Epoch(since), RegionId(region), *map(decode, keys)) for since, region, *keys in record)
