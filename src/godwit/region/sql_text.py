"""Values as literals of SQL."""

from __future__ import annotations


def text(value: str) -> str:
    return f"'{quoted(value)}'"


def quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
