"""Results page by page, and of results that replace each other the newest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from godwit.client.http import Http
from godwit.model.plan import DELETED, VERSION

PAGE = 10_000


def pages(http: Http, path: str, cursor: str | None = None) -> Iterator[tuple[list[dict[str, Any]], str]]:
    """Rows past a cursor, and the cursor behind them, until there are no more now."""
    while True:
        limits = {"limit": PAGE, **({"cursor": cursor} if cursor else {})}
        page = http.ask("GET", f"{path}/results", params=limits)
        cursor = page["cursor"]
        yield page["rows"], page["cursor"]
        if not page["more"]:
            return


def newest(rows: Sequence[dict[str, Any]], key: Sequence[str] | None) -> list[dict[str, Any]]:
    """Of the rows of a key the one of the greatest version, unless it says that the key has none."""
    if key is None:
        return list(rows)
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = repr([row[column] for column in key])
        if name not in found or _version(row) > _version(found[name]):
            found[name] = row
    hidden = (VERSION, DELETED)
    return [{k: v for k, v in row.items() if k not in hidden} for row in found.values() if not row[DELETED]]


def _version(row: dict[str, Any]) -> tuple[str, int]:
    return row[VERSION]["at"] or "", row[VERSION]["n"]
