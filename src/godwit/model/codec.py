"""Frozen values to JSON and back, so that deployments can be kept in a log and read by another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

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
        return _listed(value["columns"], value["texts"])
    if kind == "RouteTable":
        return RouteTable.of(decode(value["routes"]), value["turn"], decode(value.get("turns", _NOTHING)))
    return (_CLASSES.get(kind) or plan.KINDS[kind])(**{k: decode(v) for k, v in value.items() if k != "@"})


#: large key sets that are in use, by their size and first and last text
_LISTED: WeakValueDictionary[tuple[int, int, str, str], Listed] = WeakValueDictionary()
#: key sets of more keys than this are large
_LARGE = 1000


def _texts(keys: Listed) -> dict[str, Any]:
    """Keys as one text each: there may be very many."""
    if keys.columns is None:
        return {"@": "Listed", "keys": encode(keys.keys)}
    return {"@": "keys", "columns": keys.columns, "texts": keys.texts}


def _listed(columns: int, texts: list[str]) -> Listed:
    """The inverse. Many records name the same set of a million keys: while it is in use it is made once."""
    if len(texts) <= _LARGE:
        return _made(columns, texts)
    name = columns, len(texts), texts[0], texts[-1]
    found = _LISTED.get(name)
    if found is None or (found.texts is not texts and found.texts != texts):
        found = _LISTED[name] = _made(columns, texts)
    return found


def _made(columns: int, texts: list[str]) -> Listed:
    return Listed(frozenset((t,) if columns == 1 else tuple(t.split(KEY_SEPARATOR)) for t in texts))
