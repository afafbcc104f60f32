"""Shadows: a copy of another region's state that is built up beside processing, and answers nothing yet.

It holds what the source sent as of the marker that opened it and, where rows are sent to both, all that came since.
When the keys are switched over it becomes state like any that arrives; when the migration is cancelled it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from godwit.ids import Epoch, QueryId
from godwit.model.codec import decode, encode
from godwit.model.keys import Key, KeySet, contains
from godwit.protocol.handover import Migration

#: (query, operator, number of the migration)
ShadowKey = tuple[QueryId, int, int]


def shadow_key(move: Migration) -> ShadowKey:
    return move.query, move.operator, move.number


@dataclass(frozen=True)
class Shadow:
    """Of some keys of an instance, since an epoch."""

    query: QueryId
    operator: int
    number: int
    since: Epoch
    keys: KeySet
    #: rows of these keys come here as well as to their owner
    dual: bool
    #: rows routed from this epoch on are no copies any more
    until: Epoch | None = None
    #: it was cancelled: copies that still come are of no use
    dropped: bool = False

    def ending(self, until: Epoch, dropped: bool) -> Shadow:
        return replace(self, until=until, dropped=dropped)

    def to_json(self) -> list[Any]:
        return [self.since, encode(self.keys), self.dual, self.until, self.dropped]


def shadow_from_json(key: ShadowKey, record: list[Any]) -> Shadow:
    since, keys, dual, until, dropped = record
    return Shadow(*key, since, decode(keys), dual, until, dropped)


def shadow_of(shadows: Iterable[Shadow], instance: tuple[QueryId, int], key: Key, epoch: Epoch) -> Shadow | None:
    """The one to which a row that was routed under an epoch is a copy."""
    for shadow in shadows:
        within = shadow.since <= epoch and (shadow.until is None or epoch < shadow.until)
        if within and shadow.dual and (shadow.query, shadow.operator) == instance and contains(shadow.keys, key):
            return shadow
    return None
