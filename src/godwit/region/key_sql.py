"""Keys as SQL: their text form, their bucket, whether they are in a set, and the regions their rows go to.

`model.keys` says the same in Python; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from godwit.ids import RegionId
from godwit.model.keys import BUCKETS, KEY_SEPARATOR, NULL_KEY, HashRange, Key, KeySet, Listed, Rest
from godwit.model.routing import RouteTable
from godwit.region.sql_text import text

#: the column with the region that a row goes to, and the one with its key in text form
TO, KEY = "__to", "__key"
#: between the regions that a row goes to, where it goes to several; no region's name has it
BESIDE = "|"
#: up to this number of listed keys are written into the plan; more are rows of a table that it joins
LISTED = 500


def goes_to(region: RegionId) -> str:
    """Of a marked row: whether it goes to a region."""
    return f"instr(concat('{BESIDE}', {TO}, '{BESIDE}'), {text(BESIDE + region + BESIDE)}) > 0"


def key_text(keys: Sequence[str]) -> str:
    """A key in text form, its columns one after the other: what `model.keys` compares."""
    parts = [f"coalesce(CAST({sql} AS string), {text(NULL_KEY)})" for sql in keys]
    return parts[0] if len(parts) == 1 else f"concat_ws({text(KEY_SEPARATOR)}, {', '.join(parts)})"


def bucket(keys: Sequence[str]) -> str:
    """The hash bucket of a key, as `model.keys.bucket_of` has it."""
    return f"(crc32(CAST({key_text(keys)} AS binary)) % {BUCKETS})"


def within(keys: KeySet, sql: Sequence[str]) -> str:
    """Whether a row's key is in a set."""
    match keys:
        case Listed(some):
            return f"{key_text(sql)} IN ({_texts(some)})" if some else "false"
        case HashRange(low, high, but):
            inside = f"{bucket(sql)} >= {low} AND {bucket(sql)} < {high}"
            return f"({inside} AND NOT {within(Listed(but), sql)})" if but else f"({inside})"
        case Rest(named):
            return f"NOT ({' OR '.join(within(other, sql) for other in named)})" if named else "true"


def regions_by_key(table: RouteTable, keys: Sequence[str]) -> str:
    """The regions that a key's rows go to, as one expression; keys that are too many to be listed are left out."""
    routes = table.routes[:-1] if len(table.listed) <= LISTED else table.ranged  # listed ones first, which win
    cases = [f"WHEN {within(route.keys, keys)} THEN {text(BESIDE.join(route.receivers))}" for route in routes]
    rest = text(BESIDE.join(table.rest.receivers))
    return f"CASE {' '.join(cases)} ELSE {rest} END" if cases else rest


def _texts(keys: Iterable[Key]) -> str:
    return ", ".join(text(KEY_SEPARATOR.join(key)) for key in sorted(keys))
