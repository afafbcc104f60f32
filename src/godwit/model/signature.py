"""Signatures: what an operator computes, as a short text that stays the same from version to version.

Plans are hashed in a canonical form of their own, not by `repr`: a field that has its default value is left out, so a
class that gains a field with a default keeps the signatures of all plans that do not use it. State, shapes and shared
operators are found again by these texts, so a change of the form would lose them: tests/model/test_signature.py has
some as literals.

The signature of an operator covers everything below it. A literal that was lifted out of the plan (`__p0`) stands for
its type there or, where it is given, for its value: then equal signatures mean equal rows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any

#: a lifted literal, as plans name it (`model.plan.PARAMETER`)
_PARAMETER = re.compile(r"\b__p(\d+)\b")
Fill = Callable[[str], str]


@dataclass(frozen=True, order=True)
class StateKey:
    """The state of one input of an operator, wherever it lies."""

    signature: str
    side: int = 0

    def __str__(self) -> str:
        return f"{self.signature}/{self.side}"

    @staticmethod
    def parse(text: str) -> StateKey:
        signature, _, side = text.partition("/")
        return StateKey(signature, int(side))


def digest(value: Any, length: int = 16, fill: Fill = str) -> str:
    """The hash of a value's canonical form."""
    text = json.dumps(canonical(value, fill), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def canonical(value: Any, fill: Fill = str) -> Any:
    """The value in lists, maps with text keys, texts and numbers. `fill`: what becomes of each text."""
    if is_dataclass(value) and not isinstance(value, type):
        values = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        unusual = {f.name: values[f.name] for f in fields(value) if f.compare and values[f.name] != _default(f)}
        return [type(value).__name__, {name: canonical(part, fill) for name, part in unusual.items()}]
    if isinstance(value, Mapping):
        return {str(key): canonical(part, fill) for key, part in value.items()}
    if isinstance(value, frozenset | set):
        return sorted((canonical(part, fill) for part in value), key=repr)
    if isinstance(value, list | tuple):
        return [canonical(part, fill) for part in value]
    return fill(value) if isinstance(value, str) else value


def of_operators(
    operators: Sequence[Any],
    parameters: Sequence[str],
    extra: Callable[[int], Any] = lambda index: None,
) -> tuple[str, ...]:
    """The signature of each operator of a plan. `parameters`: what each lifted literal stands for; `extra`: what else
    an operator's work depends on. Operators that are alike are told apart by a number: each has its own state."""

    def fill(text: str) -> str:
        return _PARAMETER.sub(lambda match: f"({parameters[int(match[1])]})#{match[1]}", text)

    return _numbered(_signatures(operators, fill, extra))


def of_values(
    operators: Sequence[Any], literals: Sequence[str], extra: Callable[[int], Any] = lambda index: None
) -> tuple[str, ...]:
    """The same with values in place of the lifted literals: equal exactly where the same is done to the same rows."""

    return tuple(_signatures(operators, lambda text: filled(text, literals), extra))


def filled(text: str, literals: Sequence[str]) -> str:
    """An expression with values in place of the lifted literals."""
    return _PARAMETER.sub(lambda match: f"({literals[int(match[1])]})", text)


def _signatures(operators: Sequence[Any], fill: Fill, extra: Callable[[int], Any]) -> list[str]:
    found: list[str] = []
    for index, operator in enumerate(operators):
        kind, parts = canonical(operator, fill)
        parts.pop("inputs", None)  # numbers of a plan; what is below counts by its signature
        below = [found[child] for child in operator.inputs]
        found.append(digest([kind, parts, below, extra(index)]))
    return found


def _numbered(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        text if (before := found[:index].count(text)) == 0 else f"{text}~{before}" for index, text in enumerate(found)
    )


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING
