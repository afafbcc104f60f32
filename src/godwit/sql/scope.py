"""Names: which column a reference means, and the flat name it has in the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from sqlglot import exp

from godwit.errors import UnknownNameError
from godwit.sql.draft import Draft, column
from godwit.sql.fault import SqlFault, unknown


@dataclass(frozen=True)
class ScopeField:
    """A column of a relation."""

    #: as the user knows it
    name: str
    #: its name in the plan
    flat: str
    #: Spark's DDL name where it is known
    type: str | None = None
    #: how far it lags behind the query's clock, if it is a time column (see godwit.model.plan); None: it is not
    lag_us: int | None = None
    #: (name of a moment, microseconds after it), where several columns are at fixed distances: a window's bounds
    tied: tuple[str, int] | None = None
    #: `*` does not name it
    hidden: bool = False


@dataclass(frozen=True, eq=False)
class Relation:
    """Something in FROM: a stream, a sub-query, or what a join makes of several."""

    alias: str
    draft: Draft
    fields: tuple[ScopeField, ...]
    #: where it stands in the query
    origin: exp.Expr | None = None
    #: the columns by which its rows replace each other; None: they do not
    key: tuple[str, ...] | None = None


#: decides about a reference before the relations are asked (window.start, aliases of the SELECT list)
Special = Callable[[exp.Column], exp.Expr | None]


@dataclass(frozen=True, eq=False)
class NameScope:
    relations: tuple[Relation, ...]

    def field(self, flat: str) -> ScopeField | None:
        return next((f for r in self.relations for f in r.fields if f.flat == flat), None)

    def reference(self, relation: Relation, field: ScopeField) -> exp.Column:
        """How the query itself can name a field. (A sub-query that stands alone need not have a name.)"""
        return exp.column(field.name, table=relation.alias if len(self.relations) > 1 else None, quoted=True)

    def resolve(self, expression: exp.Expr, special: Special | None = None) -> exp.Expr:
        """A copy of the expression that reads flat names only."""
        select = expression.find_ancestor(exp.Select)
        given = (
            () if select is None else {one.alias.lower() for one in select.expressions if isinstance(one, exp.Alias)}
        )

        def swap(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            return (special(node) if special else None) or self.find(node) or self._fail(node, given)

        return expression.copy().transform(swap, copy=False)

    def find(self, node: exp.Column) -> exp.Expr | None:
        """The flat column (or the field of a struct in it) that a reference means; None if there is none."""
        parts = [p for p in node.parts if isinstance(p, exp.Identifier)]
        for relation in self.relations if len(parts) > 1 else ():
            if same(relation.alias, parts[0].name):
                field = _named(relation, parts[1].name)
                if field is not None:
                    return _access(field, node, parts[2:])
        owners = [f for r in self.relations if (f := _named(r, parts[0].name)) is not None]
        if len(owners) > 1:
            where = " and ".join(r.alias for r in self.relations if _named(r, parts[0].name))
            msg = f"column '{parts[0].name}' is in {where}"
            raise SqlFault(msg, node, f"say which, e.g. {self.relations[0].alias}.{parts[0].name}", UnknownNameError)
        return _access(owners[0], node, parts[1:]) if owners else None

    def _fail(self, node: exp.Column, given: Collection[str]) -> exp.Expr:
        """`given`: names that the SELECT gives to what it computes."""
        parts = [p.name for p in node.parts]
        relation = next((r for r in self.relations if len(parts) > 1 and same(r.alias, parts[0])), None)
        if relation is not None:
            msg = f"'{relation.alias}' has no column '{parts[1]}'"
            raise unknown(msg, node, parts[1], (f.name for f in relation.fields))
        if len(parts) == 1 and parts[0].lower() in given:
            msg = f"'{parts[0]}' is a name that this SELECT gives, which its other expressions cannot read"
            raise SqlFault(msg, node, "write the expression again, or read it in a SELECT around this one")
        if len(parts) > 1:
            msg = f"there is no stream or alias '{parts[0]}' in this FROM"
            raise unknown(msg, node, parts[0], (r.alias for r in self.relations))
        msg = f"there is no column '{parts[0]}' in {', '.join(r.alias for r in self.relations)}"
        raise unknown(msg, node, parts[0], (f.name for r in self.relations for f in r.fields))

    def expand(self, star: exp.Expr) -> Iterator[tuple[ScopeField, Relation]]:
        """The columns that `*` or `alias.*` stands for."""
        alias = star.args["table"].name if isinstance(star, exp.Column) and star.args.get("table") else None
        chosen = [r for r in self.relations if alias is None or same(r.alias, alias)]
        if not chosen:
            msg = f"there is no stream or alias '{alias}' in this FROM"
            raise unknown(msg, star, str(alias), (r.alias for r in self.relations))
        return ((f, r) for r in chosen for f in r.fields if not f.hidden)


def same(a: str, b: str) -> bool:
    """Spark's names do not mind case."""
    return a.lower() == b.lower()


def _named(relation: Relation, name: str) -> ScopeField | None:
    return next((f for f in relation.fields if same(f.name, name)), None)


def _access(field: ScopeField, origin: exp.Column, path: list[exp.Identifier]) -> exp.Expr:
    found: exp.Expr = column(field.flat)
    # keep the place in the user's text, for messages of later steps
    found.this.meta.update(origin.this.meta)
    for part in path:
        found = exp.Dot(this=found, expression=exp.to_identifier(part.name))
    return found
