"""Shapes: what distinguishes queries of one kind, their literals, is lifted out of the plan.

    WHERE train = 'S41-7' AND boarded + alighted > 2      ->  subscription train: 'S41-7'
                                                              boarded + alighted > __p0, __p0 = 2

A literal is lifted where a column of its type means exactly the same: as an operand of a comparison or of arithmetic,
beside something that reads a column. Everything else (patterns, formats, window sizes) stays in the text.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from godwit.model.plan import PARAMETER, Parameter
from godwit.sql.dialect import text
from godwit.sql.draft import Draft, FilterNode, ScanNode, column, flat, inputs, with_inputs
from godwit.sql.scope import same

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_TYPED = {"DOUBLE": "double", "FLOAT": "float", "BIGINT": "bigint", "SMALLINT": "smallint", "TINYINT": "tinyint"}
_SUFFIX = {"double": "D", "float": "F", "bigint": "L", "smallint": "S", "tinyint": "Y"}
#: types of columns that can be subscribed to -> types of literals that have an equal in them
_SUBSCRIBABLE = {
    "string": {"string"},
    "int": {"int"},
    "integer": {"int"},
    "bigint": {"int", "bigint"},
    "long": {"int", "bigint"},
}


class Lifter:
    """Writes expressions as text, and collects the literals that leave it."""

    def __init__(self, decimals: bool) -> None:
        #: whether the query may compute with decimals: Spark types `decimal / 3` by the literal's digits, so that a
        #: column in its place would change the result's scale
        self._decimals = decimals
        self.parameters: list[Parameter] = []
        self.values: list[str] = []

    def lifted(self, expression: exp.Expr) -> str:
        """The expression's text with literals replaced by parameters."""
        return text(expression.copy().transform(self._visit, copy=False))

    def _visit(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Between):
            self._lift(node, "low", node.this)
            self._lift(node, "high", node.this)
        elif isinstance(node, _COMPARISONS + _ARITHMETIC):
            self._lift(node, "this", node.expression)
            self._lift(node, "expression", node.this)
        return node

    def _lift(self, node: exp.Expr, side: str, other: exp.Expr) -> None:
        literal = node.args[side]
        found = literal_of(literal)
        if found is None or other.find(exp.Column) is None:
            return
        kind, value = found
        if isinstance(node, _ARITHMETIC) and (kind == "string" or (self._decimals and kind in ("int", "bigint"))):
            return
        name = f"{PARAMETER}{len(self.parameters)}"
        self.parameters.append(Parameter(name, kind))
        self.values.append(value)
        literal.replace(column(name))


def literal_of(node: exp.Expr) -> tuple[str, str] | None:
    """(type, text) of a literal as Spark would type it; None for anything else."""
    sign = ""
    if isinstance(node, exp.Neg):
        sign, node = "-", node.this
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        kind = _TYPED.get(node.to.this.value if hasattr(node.to.this, "value") else str(node.to.this))
        return None if kind is None else (kind, f"{sign}{node.this.name}{_SUFFIX[kind]}")
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return None if sign else ("string", text(node))
    return _number_type(sign + node.name), sign + node.name


def _number_type(number: str) -> str:
    if "e" in number.lower():
        return "double"
    value = Decimal(number)
    if "." not in number:
        if -(2**31) <= value < 2**31:
            return "int"
        return "bigint" if -(2**63) <= value < 2**63 else f"decimal({len(value.as_tuple().digits)},0)"
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    digits = len(value.as_tuple().digits)
    return f"decimal({max(digits, -exponent)},{-exponent})"


def subscribe(draft: Draft) -> Draft:
    """One `column = literal` or `column IN (literals)` above each scan becomes its subscription."""
    draft = with_inputs(draft, tuple(subscribe(child) for child in inputs(draft)))
    if not (isinstance(draft, FilterNode) and isinstance(draft.input, ScanNode)):
        return draft
    scan = draft.input
    wanted = [(part, *found) for part in draft.conjuncts if (found := _choice(part, scan)) is not None]
    if not wanted:
        return draft
    part, name, values = min(wanted, key=lambda w: not same(w[1], scan.stream.device or ""))
    scan = replace(scan, subscribe=name, values=values)
    rest = tuple(p for p in draft.conjuncts if p is not part)
    return FilterNode(scan, rest) if rest else scan


def _choice(part: exp.Expr, scan: ScanNode) -> tuple[str, tuple[str, ...]] | None:
    """(column, literals) of a conjunct that picks rows by a few values of one column of the scan."""
    match part:
        case exp.EQ():
            a, b = part.left, part.right
            subject, options = (a, [b]) if isinstance(a, exp.Column) else (b, [a])
        case exp.In() if part.expressions:
            subject, options = part.this, part.expressions
        case exp.Paren():
            return _choice(part.this, scan)
        case _:
            return None
    declared = {flat(scan.alias, c.name): c for c in scan.stream.columns}.get(subject.name)
    literals = [literal_of(option) for option in options]
    if not isinstance(subject, exp.Column) or declared is None:
        return None
    kinds = {found[0] if found else None for found in literals}
    if not kinds <= _SUBSCRIBABLE.get(declared.type.lower(), set()):
        return None
    return declared.name, tuple(dict.fromkeys(found[1] for found in literals if found))
