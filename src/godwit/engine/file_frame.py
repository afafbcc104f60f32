"""Frames of rows that lie in files as they are: a DataFrame that remembers the SELECT lists it was made by.

An operator that keeps its input's rows for a while need not write them a second time: it can keep links to the files
and these SELECT lists (`region/context.py`). Whatever is not a projection gives an ordinary DataFrame; there is none
before it is needed, because Spark takes milliseconds to analyse each step.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from godwit.storage.log import Segment

_NAME = re.compile(r"`?(\w+)`?")
_RENAMED = re.compile(r"`?(\w+)`? AS `?(\w+)`?")
_ALIASED = re.compile(r".* AS `?(\w+)`?", re.DOTALL)


@dataclass(frozen=True, eq=False)
class FileFrame:
    """All rows of some segments, which have one schema and no edits, and what is selected of them."""

    #: SELECT lists, the innermost first -> what they make of the rows
    scan: Callable[[Sequence[Sequence[str]]], DataFrame]
    segments: tuple[Segment, ...]
    #: SELECT lists, the innermost first
    selects: tuple[tuple[str, ...], ...] = ()
    #: (number of a SELECT list, a column that it makes) -> the column below that it never decreases with, and how it
    #: follows from it (microseconds)
    derived: dict[tuple[int, str], tuple[str, Callable[[int], int]]] = field(default_factory=dict)

    @cached_property
    def frame(self) -> DataFrame:
        """As a DataFrame."""
        return self.scan(self.selects)

    @cached_property
    def columns(self) -> list[str]:
        names = list(_columns_of(self.segments[0].schema))
        for texts in self.selects:
            known = [names if text == "*" else _made(text) for text in texts]
            if None in known:
                return list(self.frame.columns)
            names = [name for those in known for name in those or ()]
        return names

    @property
    def schema(self) -> StructType:
        return self.frame.schema

    def selectExpr(self, *texts: str) -> FileFrame:  # noqa: N802 - as Spark has it
        return replace(self, selects=(*self.selects, texts))

    def select(self, *names: str) -> FileFrame:
        return self.selectExpr(*(f"`{name}`" for name in names))

    def drop(self, *names: str) -> FileFrame:
        kept = [name for name in self.columns if name not in names]
        return self if len(kept) == len(self.columns) else self.select(*kept)

    def following(self, name: str, column: str, step: Callable[[int], int]) -> FileFrame:
        """Knows of a column of the last SELECT list which column below it follows from."""
        return replace(self, derived={**self.derived, (len(self.selects) - 1, name): (column, step)})

    def __getattr__(self, name: str) -> Any:
        """Everything else a DataFrame has gives what a DataFrame gives."""
        return getattr(self.frame, name)

    def plain(self, text: str) -> str | None:
        """The column of the files that an expression passes on as it is; None: it makes something of it."""
        name: str | None = text
        for texts in reversed((*self.selects, (text,))):
            plain = None if name is None else _NAME.fullmatch(name)
            name = None if plain is None else _below(plain[1], texts)
        return name

    def source(self, name: str) -> tuple[str, Callable[[int], int]] | None:
        """The column of the files that a column of times follows from, and how; None: not known."""
        steps: list[Callable[[int], int]] = []
        for number in reversed(range(len(self.selects))):
            texts = self.selects[number]
            if (number, name) in self.derived:
                name, step = self.derived[number, name]
                steps.append(step)
            elif (below := _below(name, texts)) is not None:
                name = below
            else:
                return None

        def follow(value: int) -> int:
            for step in reversed(steps):
                value = step(value)
            return value

        return name, follow


@lru_cache(maxsize=512)
def _columns_of(schema: str) -> tuple[str, ...]:
    return tuple(known["name"] for known in json.loads(schema)["fields"])


def _made(text: str) -> list[str] | None:
    """What the column that a text makes is called; None: it is not said."""
    found = _ALIASED.fullmatch(text) or _NAME.fullmatch(text)
    return None if found is None else [found[1]]


def _below(name: str, texts: Sequence[str]) -> str | None:
    """What a column is called below a SELECT list that passes it on as it is."""
    for text in texts:
        if (renamed := _RENAMED.fullmatch(text)) is not None:
            if renamed[2] == name:
                return renamed[1]
        elif (plain := _NAME.fullmatch(text)) is not None:
            if plain[1] == name:
                return name
        elif (made := _ALIASED.fullmatch(text)) is not None and made[1] == name:
            return None
    return name if "*" in texts else None
