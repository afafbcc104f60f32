"""Spark's SQL as sqlglot reads it, but with function calls left as they are written.

sqlglot translates between dialects, so it turns `to_char(x, '99')` into a cast and forgets `instr`'s third argument.
Here a call is only a name and its arguments, except where it must be known (see below).
"""

from __future__ import annotations

from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from godwit.errors import SqlError
from godwit.sql.fault import point

#: struct names its fields by its columns, and the plan renames columns; count(*) and array(..)[0] are misread otherwise
_KNOWN = {"COUNT", "STRUCT", "ARRAY"}
#: calls with words between their arguments
_WORDED = {"CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM"}


class PlainSpark(Spark):
    class Parser(SparkParser):
        FUNCTIONS = {name: build for name, build in SparkParser.FUNCTIONS.items() if name in _KNOWN}  # noqa: RUF012
        FUNCTION_PARSERS = {name: read for name, read in SparkParser.FUNCTION_PARSERS.items() if name in _WORDED}  # noqa: RUF012


def tokens(sql: str) -> list[Token]:
    """The text's tokens, with what sqlglot would misread put right or refused."""
    found: list[Token] = PlainSpark().tokenize(sql)
    for token in found:
        if token.token_type == TokenType.IDENTIFIER and not token.text.strip():
            # sqlglot takes `` for no name at all, and stumbles over what is not there
            problem, remedy = "a name is empty", "write a name between the back quotes, or leave them out"
            raise SqlError(problem, place=point(sql, token.start, token.end + 1), remedy=remedy)
    for token, following in pairwise(found):
        if token.token_type == following.token_type == TokenType.STRING:
            # Spark reads 'it''s' as it's, sqlglot as its
            problem, remedy = "two strings stand side by side", "write a quote within a string as \\', or use concat"
            raise SqlError(problem, place=point(sql, token.start, following.end + 1), remedy=remedy)
        if token.text.upper() == "MATCH_CONDITION" and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.MATCH_CONDITION
        # sqlglot takes the `window(` of GROUP BY window(..) for the WINDOW clause, which has no parenthesis there
        if token.token_type in (TokenType.WINDOW, TokenType.SESSION) and following.token_type == TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    return [token for number, token in enumerate(found) if not _is_table_word(found, number)]


def _is_table_word(found: list[Token], number: int) -> bool:
    """The second word of TUMBLE(TABLE stream, ..), which sqlglot does not know there (see `spellings.py`)."""
    if found[number].token_type != TokenType.TABLE or number < 2 or found[number - 1].token_type != TokenType.L_PAREN:
        return False
    return found[number - 2].text.lower() in ("tumble", "hop", "session", "cumulate")


def parse(sql: str) -> list[exp.Expr | None]:
    """The syntax trees of the statements in a text."""
    return PlainSpark().parser().parse(tokens(sql), sql)


def text(expression: exp.Expr, pretty: bool = False) -> str:
    return expression.sql(PlainSpark, comments=False, pretty=pretty)
