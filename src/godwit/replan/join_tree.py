"""Join trees: which streams of a query are joined first, as a value.

    (B JOIN C) JOIN D JOIN A      is read from the left: ((B JOIN C) JOIN D) JOIN A

A leaf is the alias under which FROM names a stream. Two trees that differ only in left and right are the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from godwit.errors import ConfigError
from godwit.replan.fault import fault

_TOKEN = re.compile(r"\s*([()]|[A-Za-z_][\w+]*|\S)")
_SHAPE = 'write it like "(a JOIN b) JOIN c": aliases, JOIN and parentheses'

#: whether a join of these two sets of aliases has a key and a band
Joinable = Callable[[frozenset[str], frozenset[str]], bool]


@dataclass(frozen=True)
class JoinTree:
    """A leaf (`alias`) or the join of two trees (`left`, `right`)."""

    alias: str = ""
    children: tuple[JoinTree, ...] = ()

    @staticmethod
    def leaf(alias: str) -> JoinTree:
        return JoinTree(alias=alias)

    @staticmethod
    def join(left: JoinTree, right: JoinTree) -> JoinTree:
        return JoinTree(children=(left, right))

    @staticmethod
    def left_deep(aliases: Sequence[str]) -> JoinTree:
        tree = JoinTree.leaf(aliases[0])
        for alias in aliases[1:]:
            tree = JoinTree.join(tree, JoinTree.leaf(alias))
        return tree

    @property
    def left(self) -> JoinTree:
        return self.children[0]

    @property
    def right(self) -> JoinTree:
        return self.children[1]

    @property
    def is_leaf(self) -> bool:
        return not self.children

    @property
    def aliases(self) -> tuple[str, ...]:
        """The leaves from left to right."""
        return (self.alias,) if self.is_leaf else self.left.aliases + self.right.aliases

    @property
    def covers(self) -> frozenset[str]:
        return frozenset(self.aliases)

    @property
    def height(self) -> int:
        """Levels of joins: 0 of a leaf."""
        return 0 if self.is_leaf else 1 + max(child.height for child in self.children)

    @property
    def joins(self) -> tuple[JoinTree, ...]:
        """Every join of the tree, inputs before outputs, the root last."""
        return () if self.is_leaf else (*self.left.joins, *self.right.joins, self)

    @property
    def inner(self) -> tuple[JoinTree, ...]:
        """The joins whose results are kept for another join: all but the root."""
        return self.joins[:-1]

    @property
    def canonical(self) -> JoinTree:
        """The same order with the smaller alias on the left of every join."""
        if self.is_leaf:
            return self
        return JoinTree.join(*sorted((child.canonical for child in self.children), key=lambda c: min(c.aliases)))

    def same_order(self, other: JoinTree) -> bool:
        return self.canonical == other.canonical

    def __str__(self) -> str:
        if self.is_leaf:
            return self.alias
        # Reading from the left needs no parentheses on the left; they are written where two joins meet.
        left = str(self.left)
        right = str(self.right) if self.right.is_leaf else f"({self.right})"
        return f"{left} JOIN {right}"


def parse(text: str, known: Collection[str] = ()) -> JoinTree:
    """The tree that a text says; ConfigError where it says none, or not each of the `known` aliases once."""
    tree = _Reader(text).read()
    if known:
        _check_leaves(tree, text, known)
    return tree


def trees(aliases: Collection[str], joinable: Joinable = lambda left, right: True) -> Iterator[JoinTree]:
    """Every order (canonical, each once) in which no join lacks a key or a band."""
    names = sorted(aliases)
    if len(names) == 1:
        yield JoinTree.leaf(names[0])
        return
    first, rest = names[0], names[1:]
    for size in range(len(rest)):
        for others in combinations(rest, size):
            mine = frozenset((first, *others))
            theirs = frozenset(names) - mine
            if joinable(mine, theirs):
                for left in trees(mine, joinable):
                    for right in trees(theirs, joinable):
                        yield JoinTree.join(left, right)


def _check_leaves(tree: JoinTree, text: str, known: Collection[str]) -> None:
    found = tree.aliases
    folded = {name.lower(): name for name in known}
    for name in found:
        if name.lower() not in folded:
            msg = f"'{name}' is no stream of the query"
            raise _error(msg, text, text.find(name), _named(known))
        if sum(other.lower() == name.lower() for other in found) > 1:
            msg = f"'{name}' stands twice in the order"
            raise _error(msg, text, text.rfind(name), _named(known))
    missing = sorted(set(folded) - {name.lower() for name in found})
    if missing:
        names = ", ".join(f"'{folded[name]}'" for name in missing)
        msg = f"{names} not in the order"
        raise _error(msg, text, len(text), f"append: JOIN {folded[missing[0]]}")


def _named(known: Collection[str]) -> str:
    return f"name each of {', '.join(sorted(known))} once"


class _Reader:
    """tree = term {JOIN term}; term = alias | ( tree )"""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(m[1], m.start(1)) for m in _TOKEN.finditer(text)]
        self._next = 0

    def read(self) -> JoinTree:
        tree = self._tree()
        if self._next < len(self._tokens):
            token, _ = self._tokens[self._next]
            what = "a ')' closes nothing" if token == ")" else f"JOIN is missing before '{token}'"
            raise self._fault(what)
        return tree

    def _tree(self) -> JoinTree:
        tree = self._term()
        while self._peek().upper() == "JOIN":
            self._next += 1
            tree = JoinTree.join(tree, self._term())
        return tree

    def _term(self) -> JoinTree:
        token = self._peek()
        if token == "(":
            opened = self._next
            self._next += 1
            tree = self._tree()
            if self._peek() != ")":
                problem = f"JOIN or ')' is missing before '{self._peek()}'"
                if self._next == len(self._tokens):
                    self._next, problem = opened, "a '(' is not closed"
                raise self._fault(problem)
            self._next += 1
            return tree
        if not re.fullmatch(r"[A-Za-z_][\w+]*", token) or token.upper() == "JOIN":
            raise self._fault(f"an alias is missing before '{token}'" if token else "an alias is missing at the end")
        self._next += 1
        return JoinTree.leaf(token)

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _fault(self, problem: str) -> ConfigError:
        place = self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text)
        return _error(problem, self._text, place, _SHAPE)


def _error(problem: str, text: str, place: int, remedy: str) -> ConfigError:
    return fault(problem, at=f"{max(place, 0) + 1}: {text}", remedy=remedy)
