"""Faults that pydantic finds in files and request bodies, in godwit's words: the place, the fault and the remedy.

sites[2].cpu: Input should be greater than or equal to 0 (it is -1)
colums: there is no such key; did you mean 'columns'?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from godwit.names import hint

#: what a file's author knows of shapes; pydantic would name the class
_SHAPES = {
    **dict.fromkeys(("list_type", "tuple_type"), "is not a list: write - items, or [..]"),
    **dict.fromkeys(
        ("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "has no keys: write key: value, or {..}"
    ),
}


def worded(errors: Iterable[Mapping[str, Any]], model: Any, *, secret: bool = False) -> list[str]:
    """One sentence per fault, keys that do not exist first: a mistyped key is the reason for the missing one.

    `errors`: of a ValidationError; `model`: what was validated, which has the keys that exist. `secret`: values may be
    secrets, and are not shown.
    """
    return [_worded(e, model, secret) for e in sorted(errors, key=lambda e: e["type"] != "extra_forbidden")]


def place(location: Sequence[str | int]) -> str:
    """`sites[2].cpu`"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _worded(error: Mapping[str, Any], model: Any, secret: bool) -> str:
    where = place(error["loc"]) or "top level"
    if error["type"] == "extra_forbidden":
        *above, key = error["loc"]
        return f"{where}: there is no such key; {hint(str(key), _keys(model, above))}"
    if error["type"] == "missing":
        return f"{where}: is missing; add it"
    if error["type"] == "json_invalid":  # (FastAPI's; the place is a position in the text)
        return f"{where}: not JSON: {error['ctx']['error']}"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}"
    said = _SHAPES.get(error["type"], error["msg"])
    if secret:
        return f"{where}: {said}"
    shown = repr(error["input"])
    return f"{where}: {said} (it is {shown if len(shown) <= 80 else shown[:77] + '...'})"


def _keys(model: Any, location: Iterable[str | int]) -> list[str]:
    """The keys that exist at a place. Parts that are no field (an index, a key of a mapping, a union's tag) stay."""
    here = _models(model)
    for part in location:
        fields = [field for m in here for name, field in m.model_fields.items() if part in (name, field.alias)]
        here = [m for field in fields for m in _models(field.annotation)] or here
    return [field.alias or name for m in here for name, field in m.model_fields.items()]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models in a type: those of `list[Site] | None` are [Site]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
