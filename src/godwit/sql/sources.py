"""What stands in FROM, stage by stage: inner joins that lie next to each other together, every other join by itself.

Conditions of an inner join and of WHERE are the same thing; those of an outer join decide who is a partner, not who
comes out. So WHERE is asked as early as no outer join that follows could still make a row without a partner of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from godwit.model.joins import How
from godwit.sql.asof import Asof, join_asof
from godwit.sql.draft import Draft, filtered, names
from godwit.sql.fault import SqlFault
from godwit.sql.joins import Joiner, check_width, combine
from godwit.sql.scope import NameScope, Relation


@dataclass(frozen=True, eq=False)
class FromItem:
    """A relation of a FROM, and how it is joined with those before it; `how` None: by an inner join."""

    relation: Relation
    how: How | Asof | None = None
    on: tuple[exp.Expr, ...] = ()


def visible(sources: tuple[FromItem, ...]) -> NameScope:
    """What SELECT and WHERE can name: the right side of a semi or anti join only decides."""
    return NameScope(tuple(s.relation for s in sources if s.how not in ("semi", "anti")))


def put_together(
    sources: tuple[FromItem, ...], where: tuple[exp.Expr, ...], order: tuple[int, ...] = ()
) -> tuple[Draft, NameScope]:
    """One draft for all of FROM under its WHERE (resolved), and the scope above it."""
    if all(s.how is None for s in sources):
        on = tuple(p for s in sources for p in s.on)
        return combine(NameScope(tuple(s.relation for s in sources)), (*on, *where), order)
    if order:
        msg = "joins in which missing partners count are taken in the order written"
        raise SqlFault(msg, sources[0].relation.origin, "leave the order as it is")
    check_width(tuple(s.relation for s in sources))
    return _Stages(sources, where).run()


class _Stages:
    def __init__(self, sources: tuple[FromItem, ...], where: tuple[exp.Expr, ...]) -> None:
        self._sources, self._where = sources, list(where)
        self._held: tuple[exp.Expr, ...] = ()
        self._scope = NameScope(())
        self._draft: Draft | None = None

    def run(self) -> tuple[Draft, NameScope]:
        place = 0
        while place < len(self._sources):
            how = self._sources[place].how
            place = self._inner(place) if how is None else self._outer(place, how)
        assert self._draft is not None
        return self._draft, self._scope

    def _inner(self, place: int) -> int:
        """Relations from here to the next outer join."""
        end = place
        while end < len(self._sources) and self._sources[end].how is None:
            end += 1
        new = self._sources[place:end]
        scope = NameScope((*self._scope.relations, *(s.relation for s in new)))
        parts = (*(p for s in new for p in s.on), *self._decidable(scope, end))
        begun = None if self._draft is None else (self._draft, len(self._scope.relations))
        self._draft, self._scope = Joiner(scope, parts, begun, self._held).run()
        self._held += parts
        return end

    def _outer(self, place: int, how: How | Asof) -> int:
        source = self._sources[place]
        assert self._draft is not None
        scope = NameScope((*self._scope.relations, source.relation))
        begun = (self._draft, len(self._scope.relations))
        if isinstance(how, Asof):
            self._draft, self._scope = join_asof(self._scope, self._draft, source.relation, how, source.on)
        else:
            self._draft, self._scope = Joiner(scope, source.on, begun, self._held).outer(how)
        if how in ("right", "full"):
            self._held = ()  # (of what may be missing nothing is known)
        parts = self._decidable(self._scope, place + 1)
        self._draft = filtered(self._draft, parts)
        self._held += parts
        return place + 1

    def _decidable(self, scope: NameScope, done: int) -> tuple[exp.Expr, ...]:
        """The parts of WHERE that can be decided now, and need not wait for what follows."""
        if any(s.how in ("right", "full") for s in self._sources[done:]):
            return ()
        known = {f.flat for r in scope.relations for f in r.fields}
        found = tuple(p for p in self._where if names([p]) <= known)
        self._where = [p for p in self._where if p not in found]
        return found
