"""The same query with its streams joined in other orders: inner joins may be taken in any that keys and bands allow.

Which one is best is decided where rates and running queries are known (`api/admission_controller.py`). Only the widest
FROM of a query is reordered; joins are left-deep, as they are executed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import permutations

from godwit.errors import SqlError
from godwit.ids import StreamId
from godwit.model.plan import Query, Stream
from godwit.sql.compile import compile_query, width


def orders(query: Query, streams: Mapping[StreamId, Stream], declared: Collection[str] = ()) -> Iterator[Query]:
    """The query as written, then in every other order that can run."""
    yield query
    for order in list(permutations(range(width(query.sql))))[1:]:
        try:
            yield compile_query(query.sql, streams, query.id, order, declared)
        except SqlError:
            continue  # nothing joins these two directly
