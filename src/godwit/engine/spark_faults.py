"""What Spark says of a query that it cannot type, in the form of our own refusals: the problem, the place, a remedy.

Spark speaks of the text that the oracle runs, which is not always the user's; so the place is looked for by the words
that Spark names.
"""

from __future__ import annotations

import re

from godwit.errors import TypeMismatchError
from godwit.sql.fault import point

#: how the name of Spark's error begins -> what helps
_REMEDIES = {
    "WRONG_NUM_ARGS": "give the function as many arguments as it takes",
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": "compare it with something: WHERE column = value",
    "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE": "values of this type have no order; take a field of it, or to_json(..)",
    "DATATYPE_MISMATCH": "use another column, or say the type: CAST(x AS double)",
    "INVALID_EXTRACT": "only structs, arrays and maps have fields; look at the column's type",
    "FIELD_NOT_FOUND": "look at the fields of the column's type",
    "INVALID_SQL_SYNTAX": "write it as Spark wants it",
    "PARSE_SYNTAX_ERROR": "write it as Spark wants it",
    "DECIMAL_PRECISION": "a decimal has at most 38 digits: decimal(38, 2)",
}


def mismatch(said: str, sql: str) -> TypeMismatchError:
    """`said`: Spark's message; `sql`: the query as it was written."""
    first = said.strip().splitlines()[0]
    found = re.match(r"\[([A-Z_0-9.]+)\]\s*", first)
    name = found[1] if found else ""
    text = first[found.end() :] if found else first
    text = re.sub(r"\s*SQLSTATE: \w+", "", text)
    text = re.sub(r"\s*Please,? refer to '\S+' for a fix\.?", "", text)
    text = re.sub(r";? line \d+ pos \d+;?\s*$", "", text).strip().rstrip(";")
    remedy = next((told for begin, told in _REMEDIES.items() if name.startswith(begin)), "look it up in Spark's SQL")
    return TypeMismatchError(f"Spark cannot type this query: {text}", place=_place(text, sql), remedy=remedy)


def _place(text: str, sql: str) -> str:
    """Where the query has what Spark names first: an expression, else the function or column that it begins with."""
    named = [one for pair in re.findall(r'"([^"]+)"|`([^`]+)`', text) for one in pair if one]
    for words in (*named, *(match[0] for one in named if (match := re.match(r"\w+", one)))):
        # (Spark puts spaces where it likes)
        pattern = r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", words))
        found = re.search(rf"(?<!\w){pattern}(?!\w)" if words.isidentifier() else pattern, sql, re.IGNORECASE)
        if found:
            return point(sql, *found.span())
    return point(sql, 0, len(sql))
