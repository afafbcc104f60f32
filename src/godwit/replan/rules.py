"""The rules by which a change of plan neither loses nor repeats a result (Sections 2 and 4); model and runtime ask.

A row is *old* if it was in the old box when the change began, else *new*; a combination is new only if all its rows
are. Of the 2^n cases of old and new among n streams, the old box answers all but one and the new box that one:

    cases of Figure 6        A    B    C    D        answered by
    #1                       old  old  old  old      the old box, before the change
    #2 to #15                at least one of each    the old box, during it
    #16                      new  new  new  new      the new box
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum


class Age(Enum):
    OLD = "old"
    NEW = "new"


@dataclass(frozen=True)
class Span:
    """The earliest and the latest time of the rows that a combination is made of (microseconds)."""

    least: int
    most: int


def age(taken_in: int, began: int) -> Age:
    """Of a row that was taken in under an epoch, in a change that began with another."""
    return Age.OLD if taken_in < began else Age.NEW


def combined(ages: Iterable[Age]) -> Age:
    """One old row makes a combination old: part of it was in the old box."""
    return Age.OLD if Age.OLD in ages else Age.NEW


def old_root_joins(left: Age, right: Age) -> bool:
    """At the old box's root two new combinations are not joined: the new box answers that (Section 4.2.2).

    Only there: below the root, all-new combinations may still meet an old row above.
    """
    return Age.OLD in (left, right)


def old_box_is_finished(states: Iterable[Iterable[Age]]) -> bool:
    """No state holds an old row any more: whatever the old box could still answer, the new one does (Algorithm 3)."""
    return all(Age.OLD not in state for state in states)


def purgeable(stored: Span, arrived: Span, window_us: int) -> bool:
    """Whether a stored combination can never again meet anything that comes after `arrived` on the other side.

    Lemma 2.2: later combinations have at least one time later than one of `arrived`, so not before its least.
    """
    return arrived.least - stored.most > window_us


def is_ordered(before: Sequence[int], after: Sequence[int]) -> bool:
    """Lemma 2.1: of two combinations of one queue, the later one has at least one time that is not earlier."""
    return any(b <= a for b, a in zip(before, after, strict=True))
