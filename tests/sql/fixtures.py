"""Reads tests/fixtures/sql. After a wanted change, `python -m tests.sql.fixtures` writes the expectations anew: read
the diff before you commit it.

bad/*.sql: cases `-- case: title`, then the expectation as comments (`-- error:`, `-- says:`, `-- at:`, `-- remedy:`),
then the SQL. good/*.sql: one query, then what `explain` says of it, in a comment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from godwit.errors import SqlError
from godwit.ids import QueryId
from godwit.model.explain import explain
from godwit.sql import compile_query
from tests.sql.streams import STREAMS

ROOT = Path(__file__).parent.parent / "fixtures" / "sql"
EXPLAIN = "\n/* explain\n"
FIELDS = ("error", "says", "at", "remedy")


@dataclass(frozen=True)
class Bad:
    file: str
    title: str
    sql: str
    expected: dict[str, str]

    @property
    def id(self) -> str:
        return f"{self.file}: {self.title}"


def bad_cases() -> list[Bad]:
    return [case for path in sorted((ROOT / "bad").glob("*.sql")) for case in _read(path)]


def good_files() -> list[Path]:
    return sorted((ROOT / "good").glob("*.sql"))


def good_sql(path: Path) -> tuple[str, str]:
    """(the query, what explain is to say)"""
    sql, _, expected = path.read_text().partition(EXPLAIN)
    return sql.strip(), expected.removesuffix("*/\n")


def actual(sql: str) -> dict[str, str]:
    """What the front end says to a bad query, as the fixture has it."""
    try:
        compile_query(sql, STREAMS, QueryId("q"))
    except SqlError as error:
        return dict(zip(FIELDS, (type(error).__name__, error.problem, error.place, error.remedy), strict=True))
    return {}


def explained(sql: str, name: str) -> str:
    return explain(compile_query(sql, STREAMS, QueryId(name)))


def _read(path: Path) -> list[Bad]:
    cases = []
    for block in path.read_text().split("-- case: ")[1:]:
        title, _, rest = block.partition("\n")
        expected, lines = {}, rest.splitlines()
        while lines and lines[0].startswith(tuple(f"-- {f}: " for f in FIELDS)):
            name, _, value = lines.pop(0)[3:].partition(": ")
            expected[name] = value
        cases.append(Bad(path.name, title, "\n".join(lines).strip("\n"), expected))
    return cases


def _rewrite() -> None:
    for path in sorted((ROOT / "bad").glob("*.sql")):
        blocks = []
        for case in _read(path):
            found = actual(case.sql)
            heading = [f"-- case: {case.title}", *(f"-- {name}: {value}" for name, value in found.items())]
            blocks.append("\n".join([*heading, case.sql]))
        path.write_text("\n\n".join(blocks) + "\n")
    for path in good_files():
        sql, _ = good_sql(path)
        path.write_text(f"{sql}\n{EXPLAIN}{explained(sql, path.stem)}*/\n")


if __name__ == "__main__":
    _rewrite()
