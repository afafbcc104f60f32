"""Queries over streams a to e (k, k2, v, ts), and the fixtures of tests/fixtures/replan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from godwit.ids import QueryId, StreamId
from godwit.model.plan import Column, Query, Stream
from godwit.sql.compile import compile_query

FIXTURES = Path(__file__).parents[1] / "fixtures" / "replan"
COLUMNS = (Column("k", "int"), Column("k2", "int"), Column("v", "int"), Column("ts", "timestamp"))
STREAMS = {StreamId(name): Stream(StreamId(name), COLUMNS, "ts") for name in "abcde"}


def compiled(sql: str) -> Query:
    return compile_query(sql, STREAMS, QueryId("q"))


def cases(kind: str) -> list[Path]:
    return sorted((FIXTURES / kind).glob("*.yaml"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())
