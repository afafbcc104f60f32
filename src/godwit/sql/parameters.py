"""Literals that have a name, so that they can be changed without the rest of the text.

    SELECT train, boarded, ts FROM passengers WHERE boarded > 5 /* threshold */

    ALTER QUERY crowded SET threshold = 7        the same query with 7 there: other parameters, one epoch

A name is a comment right after a number or a string; Spark passes over it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot.tokenizer_core import Token, TokenType

from godwit.errors import SqlError, UnknownNameError
from godwit.sql.dialect import tokens
from godwit.sql.fault import point

_SET = re.compile(r"\s*(?:ALTER\s+QUERY\s+\S+\s+)?SET\s+(.*)", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(
    r"\s*([A-Za-z_]\w*)\s*=\s*(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|'(?:[^'\\]|\\.)*')\s*(,|;?\s*$)", re.DOTALL
)
_NAME = re.compile(r"\s*/\*\s*([A-Za-z_]\w*)\s*\*/")
_REMEDY = "write SET name = value, other = 'text'"


def assignments(text: str) -> dict[str, str] | None:
    """Name -> literal of `SET a = 1, b = 'x'` (perhaps after ALTER QUERY q); None: it is something else."""
    found = _SET.fullmatch(text)
    if found is None:
        return None
    rest, values = found[1], dict[str, str]()
    while rest:
        one = _VALUE.match(rest)
        if one is None:
            problem = "this sets no number or string"
            raise SqlError(problem, place=point(text, text.index(rest), len(text)), remedy=_REMEDY)
        values[one[1].lower()] = one[2]
        rest = rest[one.end() :]
    return values


def named(sql: str) -> dict[str, list[Token]]:
    """Name -> the literals that have it."""
    found: dict[str, list[Token]] = {}
    for token in tokens(sql):
        name = _NAME.match(sql, token.end + 1)
        if name is not None and token.token_type in (TokenType.NUMBER, TokenType.STRING):
            found.setdefault(name[1].lower(), []).append(token)
    return found


def assigned(sql: str, values: Mapping[str, str]) -> str:
    """The query with other values for its named literals."""
    known = named(sql)
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        problem = f"no literal of the query is called '{unknown}'"
        remedy = f"its named literals: {', '.join(known)}" if known else "name one: WHERE boarded > 5 /* threshold */"
        raise UnknownNameError(problem, place=point(sql, 0, len(sql)), remedy=remedy)
    places = [(token.start, token.end + 1, values[name]) for name in values for token in known[name]]
    for start, end, value in sorted(places, reverse=True):
        sql = sql[:start] + value + sql[end:]
    return sql
