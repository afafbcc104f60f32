"""Rewrites of the draft that move work towards the sources: filters down, projections together, columns out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from godwit.model.plan import ARRIVED, DELETED, VERSION, WINDOW_END, WINDOW_START
from godwit.sql.draft import (
    AggregateNode,
    AsofNode,
    ColumnNode,
    Draft,
    ExplodeNode,
    FilterNode,
    JoinNode,
    OuterNode,
    OverNode,
    ProjectNode,
    RankNode,
    RunningNode,
    ScanNode,
    TopNode,
    UnionNode,
    column,
    filtered,
    flat,
    inputs,
    names,
    substitute,
    with_inputs,
)


def push_filters(draft: Draft) -> Draft:
    """Filters pass through projections and unions, and meet at the scans."""
    if isinstance(draft, FilterNode):
        below = draft.input
        match below:
            case FilterNode():
                return push_filters(FilterNode(below.input, below.conjuncts + draft.conjuncts))
            case ProjectNode():
                made = {c.name: c.value for c in below.columns}
                moved = tuple(substitute(part, made.get) for part in draft.conjuncts)
                return push_filters(replace(below, input=FilterNode(below.input, moved)))
            case UnionNode():
                return push_filters(UnionNode(tuple(FilterNode(branch, draft.conjuncts) for branch in below.inputs)))
            case OuterNode() | AsofNode():
                kept, moved = _for_left(below, draft.conjuncts)
                return filtered(push_filters(replace(below, left=filtered(below.left, moved))), kept)
            case JoinNode():
                return push_filters(_into_join(below, draft.conjuncts))
            case ExplodeNode():
                above = tuple(part for part in draft.conjuncts if below.name in names([part]))
                own = tuple(part for part in draft.conjuncts if below.name not in names([part]))
                source = push_filters(filtered(below.input, own))
                return filtered(replace(below, input=source), above)
    return with_inputs(draft, tuple(push_filters(child) for child in inputs(draft)))


def _into_join(join: JoinNode, parts: tuple[exp.Expr, ...]) -> JoinNode:
    left, right = outputs(join.left), outputs(join.right)
    to_left = tuple(p for p in parts if names([p]) <= left)
    to_right = tuple(p for p in parts if p not in to_left and names([p]) <= right)
    rest = tuple(p for p in parts if not names([p]) <= left and not names([p]) <= right)
    return replace(
        join,
        left=filtered(join.left, to_left),
        right=filtered(join.right, to_right),
        residual=join.residual + rest,
    )


def _for_left(
    join: OuterNode | AsofNode, parts: tuple[exp.Expr, ...]
) -> tuple[tuple[exp.Expr, ...], tuple[exp.Expr, ...]]:
    """(what must be decided above the join, what its left may be asked before): where all of the left comes out."""
    whole = isinstance(join, AsofNode) or join.how not in ("right", "full")
    mine = outputs(join.left) if whole else frozenset[str]()
    moved = tuple(p for p in parts if names([p]) and names([p]) <= mine)
    return tuple(p for p in parts if p not in moved), moved


def outputs(draft: Draft) -> frozenset[str]:
    """The columns an operator hands on."""
    match draft:
        case ScanNode():
            return frozenset(flat(draft.alias, c) for c in draft.columns)
        case FilterNode():
            return outputs(draft.input)
        case ProjectNode():
            return frozenset(c.name for c in draft.columns)
        case ExplodeNode():
            return outputs(draft.input) | {draft.name}
        case UnionNode():
            return outputs(draft.inputs[0])
        case AggregateNode():
            return frozenset([k.name for k in draft.keys] + [c.name for c in draft.calls] + [WINDOW_START, WINDOW_END])
        case RunningNode():
            made = [k.name for k in draft.keys] + [c.name for c in draft.calls]
            return frozenset([*made, WINDOW_START, WINDOW_END, VERSION, DELETED])
        case OverNode():
            return frozenset([*draft.columns, *(call.name for call in draft.calls)])
        case RankNode():
            return frozenset([*draft.columns, *(call.name for call in draft.calls)])
        case TopNode():
            return frozenset([*draft.columns, draft.place, VERSION, DELETED])
        case OuterNode(how="semi" | "anti"):
            return outputs(draft.left)
        case JoinNode() | AsofNode():
            return outputs(draft.left) | outputs(draft.right)


def merge_projections(draft: Draft) -> Draft:
    """Two projections in a row become one, unless that would compute something twice."""
    draft = with_inputs(draft, tuple(merge_projections(child) for child in inputs(draft)))
    if not (isinstance(draft, ProjectNode) and isinstance(draft.input, ProjectNode)):
        return draft
    made = {c.name: c.value for c in draft.input.columns}
    uses = Counter(n.name for c in draft.columns for n in c.value.find_all(exp.Column))
    if any(uses[name] > 1 and not isinstance(value, exp.Column) for name, value in made.items()):
        return draft
    return ProjectNode(
        draft.input.input, tuple(ColumnNode(c.name, substitute(c.value, made.get)) for c in draft.columns)
    )


def prune(draft: Draft, needed: frozenset[str]) -> Draft:
    """Drop what nothing above reads: columns of scans, of projections, and aggregate calls are kept to a minimum."""
    match draft:
        case ScanNode():
            time = ARRIVED if draft.arrival else draft.stream.time
            always = {str(name).lower() for name in (time, draft.stream.device)}
            keep = (c for c in draft.columns if c.lower() in always or flat(draft.alias, c) in needed)
            return replace(draft, columns=tuple(keep))
        case FilterNode():
            return replace(draft, input=prune(draft.input, needed | names(draft.conjuncts)))
        case ProjectNode():
            kept = tuple(c for c in draft.columns if c.name in needed) or draft.columns[:1]
            return ProjectNode(prune(draft.input, names(c.value for c in kept)), kept)
        case ExplodeNode():
            return replace(draft, input=prune(draft.input, (needed - {draft.name}) | names([draft.value])))
        case UnionNode():
            return UnionNode(tuple(prune(branch, needed) for branch in draft.inputs))
        case AggregateNode():
            calls = tuple(c for c in draft.calls if c.name in needed) or draft.calls[:1]
            reads = names([*(k.value for k in draft.keys), *(c.argument for c in calls)])
            return replace(draft, input=prune(draft.input, reads | {draft.window.time}), calls=calls)
        case RunningNode():
            read = needed | names(draft.having) | {draft.count}
            calls = tuple(c for c in draft.calls if c.name in read)
            reads = names([*(k.value for k in draft.keys), *(c.argument for c in calls)])
            return replace(draft, input=prune(draft.input, reads | {draft.window.time}), calls=calls)
        case OverNode():
            wanted = tuple(c for c in draft.calls if c.name in needed) or draft.calls[:1]
            # Its order is made of all its columns: none may go, or rows that were told apart would not be.
            return replace(draft, input=prune(draft.input, frozenset(draft.columns)), calls=wanted)
        case AsofNode():
            left = (needed | names(draft.residual) | {a for a, _ in draft.keys}) & outputs(draft.left)
            right = (needed | names(draft.residual) | {b for _, b in draft.keys}) & outputs(draft.right)
            right |= {draft.right_time, *draft.ties} | ({draft.deleted} if draft.deleted else set())
            left |= {draft.left_time}
            sides = (_narrow(prune(side, mine), mine) for side, mine in ((draft.left, left), (draft.right, right)))
            return with_inputs(draft, tuple(sides))
        case RankNode() | TopNode():
            return replace(draft, input=prune(draft.input, frozenset(draft.columns)))
        case JoinNode():
            return _prune_join(draft, needed)


def _prune_join(join: JoinNode, needed: frozenset[str]) -> JoinNode:
    wanted = needed | names(join.residual) | {join.left_time, join.right_time}
    sides = []
    for i, side in enumerate((join.left, join.right)):
        mine = (wanted | names(pair[i] for pair in join.keys)) & outputs(side)
        sides.append(_narrow(prune(side, mine), mine))
    return replace(join, left=sides[0], right=sides[1])


def _narrow(side: Draft, needed: frozenset[str]) -> Draft:
    """A join keeps its rows for a while: columns that only the filter below it read are not to be kept with them."""
    if not isinstance(side, FilterNode) or outputs(side) <= needed:
        return side
    return ProjectNode(side, tuple(ColumnNode(name, column(name)) for name in sorted(needed)))
