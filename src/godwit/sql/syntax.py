"""What is said of SQL that cannot be read: the word at fault, and what was probably meant."""

from __future__ import annotations

import re
from difflib import get_close_matches

from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from godwit.errors import SqlError, UnsupportedError
from godwit.sql.dialect import tokens
from godwit.sql.fault import point

_CLOSED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_OPENED = {"'": "quote", '"': "double quote", "`": "back quote", "/*": "comment"}


def _left_open(sql: str) -> tuple[int, str]:
    """Where a quote or a comment begins that does not end, and what it is; (0, ""): nowhere."""
    rest = _CLOSED.sub(lambda found: " " * len(found[0]), sql)
    return min(((rest.find(mark), name) for mark, name in _OPENED.items() if mark in rest), default=(0, ""))


def unreadable(sql: str, error: TokenError) -> SqlError:
    start, mark = _left_open(sql)
    problem = f"the {mark} is not closed" if mark else f"the SQL cannot be read: {str(error).splitlines()[0]}"
    remedy = "close it; within a string a quote is written \\'" if "quote" in mark else "close it with */"
    return SqlError(problem, place=point(sql, start, len(sql)), remedy=remedy if mark else "remove what is no SQL")


#: what sqlglot cannot read -> why a query cannot have it, and what helps
_UNREAD = {
    "MATCH_RECOGNIZE": (
        "MATCH_RECOGNIZE is not supported",
        "look back with lag(..) OVER (PARTITION BY key ORDER BY ts); for what did not happen, LEFT ANTI JOIN in a band",
    ),
    "WATERMARK": (
        "a query does not set the watermark of a stream",
        "declare how far its rows may be out of order: fleet.stream(.., disorder='10 seconds')",
    ),
    **dict.fromkeys(
        ("TUMBLING", "HOPPING"),
        (
            "windows stand in GROUP BY",
            "write GROUP BY key, window(ts, '10 seconds'), or window(ts, '1 minute', '10 seconds')",
        ),
    ),
    "EMIT": ("when results are put out is said by a hint", "write SELECT /*+ emit('changes') */ .., or leave it out"),
    "TOP": ("TOP needs the end of the data", "for the best of every window: ORDER BY n DESC LIMIT 3 BY until"),
}


def _unread(sql: str) -> SqlError | None:
    """A clause that is valid somewhere, but not here."""
    for token in tokens(sql):
        if token.token_type == TokenType.VAR and token.text.upper() in _UNREAD:
            problem, remedy = _UNREAD[token.text.upper()]
            return UnsupportedError(problem, place=point(sql, token.start, token.end + 1), remedy=remedy)
    return None


#: sqlglot's own words for a token
_TOKEN = re.compile(r"<Token token_type: \S+, text: (.*?), line: .*?>")


def _told_token(found: re.Match[str]) -> str:
    return "the end" if found[1] == "SENTINEL" else f"'{found[1]}'"


#: words that a query is made of, which are easily mistyped
_WORDS = ("select", "from", "where", "group", "having", "join", "between", "interval", "partition", "distinct", "union")


def _mistyped(sql: str, until: int) -> SqlError | None:
    """Of the last words before a fault, one that looks like one of SQL's."""
    for token in reversed([token for token in tokens(sql) if token.end < until][-3:]):
        near = get_close_matches(token.text.lower(), _WORDS, n=1, cutoff=0.75)
        if token.token_type == TokenType.VAR and near:
            problem = f"'{token.text}' is no word of SQL, and stands where one is expected"
            place = point(sql, token.start, token.end + 1)
            return SqlError(problem, place=place, remedy=f"did you mean {near[0].upper()}?")
    return None


def syntax_error(sql: str, error: ParseError) -> SqlError:
    if (known := _unread(sql)) is not None:
        return known
    first = error.errors[0]
    line, column = first.get("line") or 1, first.get("col") or 1
    end = sum(len(text) + 1 for text in sql.split("\n")[: line - 1]) + column
    if (mistyped := _mistyped(sql, end)) is not None:
        return mistyped
    highlight = str(first.get("highlight") or "")
    # sqlglot counts to the end of the token
    column = max(1, column - max(0, len(highlight) - 1))
    problem = _TOKEN.sub(_told_token, str(first.get("description") or error)).strip().rstrip(".")
    if problem.startswith("Required keyword"):
        problem = f"something is missing after '{highlight}'"
    snippet = " ".join(f"{str(first.get('start_context') or '')[-30:]}{highlight}".split())
    remedy = f"look at '{highlight}' and the word before it" if highlight else "look at the end of the query"
    return SqlError(f"the SQL has a mistake: {problem}", place=f"{line}:{column}: {snippet}", remedy=remedy)
