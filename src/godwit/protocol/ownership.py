"""Who owned which keys of an instance, and since when: what gives every row of state its generation.

A row's generation is the epoch since which its region owns the row's key. It is looked up by the epoch under which the
row was routed, so a history must reach back as far as rows may still come.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from godwit.ids import Epoch, RegionId
from godwit.model.codec import decode, encode
from godwit.model.keys import REST, Key, KeySet, contains, covers


class Owned(NamedTuple):
    """From an epoch on, a region processes these keys."""

    since: Epoch
    region: RegionId
    keys: KeySet = REST


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


def trimmed(history: History, region: RegionId, drained: Epoch, everywhere: Epoch) -> History:
    """What rows can still ask for. `drained`: the operator's marker here; `everywhere`: the least of all markers here.

    Rows that come from now on were routed at or after the marker. Of what happened before it matters when this region
    last got a key, unless it gave the key away since. What is not ours is kept until others have heard of the epoch.
    """
    kept = []
    for number, one in enumerate(history):
        later = history[number + 1 :]
        given = any(o.since <= drained and covers(o.keys, one.keys) for o in later)
        needed = one.region == region and not given
        if one.since > min(drained, everywhere) or needed:
            kept.append(one)
    return tuple(kept)


def history_to_json(history: History) -> list[Any]:
    return [[o.since, o.region] if o.keys == REST else [o.since, o.region, encode(o.keys)] for o in history]


def history_from_json(record: Iterable[Any]) -> History:
    return tuple(Owned(Epoch(since), RegionId(region), *map(decode, keys)) for since, region, *keys in record)
