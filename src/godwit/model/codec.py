"""Frozen values to JSON and back, so that deployments can be kept in a log and read by another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

from godwit.model import changes, deployment, joins, keys, plan, probes, ranking, routing, running, topology
from godwit.model.instances import ONCE, InstanceId, Scope
from godwit.model.keys import KEY_SEPARATOR, Listed
from godwit.model.routing import RouteTable

_NOTHING: dict[str, Any] = {"@": "map", "items": []}
_MODULES: tuple[ModuleType, ...] = (plan, running, joins, probes, ranking, deployment, topology, changes, routing, keys)
_CLASSES: dict[str, type] = {
    name: thing
    for module in _MODULES
    for name, thing in vars(module).items()
    if isinstance(thing, type) and is_dataclass(thing)
}


def encode(value: Any) -> Any:
    """JSON-ready: a dataclass becomes {"@": class, field: ...}; derived fields (compare=False) are left out."""
    if isinstance(value, InstanceId):
        own = (value.query, value.operator)
        return {"@": "instance", "of": [*own] if value.scope == ONCE else [*own, *value.scope]}
    if isinstance(value, Scope):
        return {"@": "scope", "of": [*value]}
    if isinstance(value, Listed):
        return _texts(value)
    if isinstance(value, RouteTable):
        return {"@": "RouteTable", "routes": encode(value.routes), "turn": value.turn, "turns": encode(value.turns)}
    if is_dataclass(value) and not isinstance(value, type):
        encoded = {f.name: encode(getattr(value, f.name)) for f in fields(value) if f.compare}
        return {"@": type(value).__name__, **encoded}
    if isinstance(value, Mapping):
        return {"@": "map", "items": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, frozenset | set):
        return {"@": "set", "items": [encode(v) for v in sorted(value, key=repr)]}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return {"@": "float", "value": str(value)}
    return value


def decode(value: Any) -> Any:
    """The inverse of `encode`; sequences come back as tuples."""
    if isinstance(value, list):
        return tuple(decode(v) for v in value)
    if not isinstance(value, dict):
        return value
    kind = value["@"]
    if kind == "map":
        return {decode(k): decode(v) for k, v in value["items"]}
    if kind == "instance":
        query, operator, *scope = value["of"]
        return InstanceId(query, operator, Scope(*scope) if scope else ONCE)
    if kind == "scope":
        return Scope(*value["of"])
    if kind == "set":
        return frozenset(decode(v) for v in value["items"])
    if kind == "float":
        return float(value["value"])
    if kind == "keys":
        columns, texts = value["columns"], value["texts"]
        return Listed(frozenset((t,) if columns == 1 else tuple(t.split(KEY_SEPARATOR)) for t in texts))
    if kind == "RouteTable":
        return RouteTable.of(decode(value["routes"]), value["turn"], decode(value.get("turns", _NOTHING)))
    return (_CLASSES.get(kind) or plan.KINDS[kind])(**{k: decode(v) for k, v in value.items() if k != "@"})


def _texts(keys: Listed) -> dict[str, Any]:
    """Keys as one text each: there may be very many."""
    columns = {len(key) for key in keys.keys}
    parted = columns != {1} and any(KEY_SEPARATOR in part for key in keys.keys for part in key)
    if len(columns) != 1 or parted:
        return {"@": "Listed", "keys": encode(keys.keys)}
    return {"@": "keys", "columns": columns.pop(), "texts": keys.texts}
