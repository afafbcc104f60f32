"""The oracle as an assertion: the results of a query equal the same SQL over everything its sources sent."""

from __future__ import annotations

from typing import Protocol


class Compared(Protocol):
    """What `query.verdict()` returns."""

    @property
    def equal(self) -> bool: ...


class Comparable(Protocol):
    """A query handle."""

    def verdict(self) -> Compared: ...


def assert_equal_to_oracle(*queries: Comparable) -> None:
    """Fail with the verdict of every query whose results differ from the batch over the same rows.

    Close the sources and let the fleet process what is available before: open windows have no result yet.
    """
    differing = {str(query): verdict for query in queries if not (verdict := query.verdict()).equal}
    assert not differing, "\n".join(f"{query}: {verdict}" for query, verdict in differing.items())
