"""Trees are read, written and listed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from godwit.replan.join_tree import JoinTree, parse, trees

LEAVES = st.sampled_from("abcdefgh").map(JoinTree.leaf)
TREES = st.recursive(LEAVES, lambda inner: st.builds(JoinTree.join, inner, inner), max_leaves=8)


@given(TREES)
def test_what_is_written_is_read_again(tree: JoinTree) -> None:
    assert parse(str(tree)) == tree


@given(TREES)
def test_left_and_right_make_no_order(tree: JoinTree) -> None:
    def mirrored(t: JoinTree) -> JoinTree:
        return t if t.is_leaf else JoinTree.join(mirrored(t.right), mirrored(t.left))

    assert len(set(tree.aliases)) < len(tree.aliases) or tree.same_order(mirrored(tree))
    assert mirrored(tree).height == tree.height


def test_read_from_the_left() -> None:
    tree = parse("(B join C) JOIN D JOIN A")
    assert tree == JoinTree.left_deep(["B", "C", "D", "A"])
    assert (tree.height, [str(t) for t in tree.inner]) == (3, ["B JOIN C", "B JOIN C JOIN D"])
    assert parse("((a JOIN b)) JOIN (c JOIN d)").height == 2


def test_as_many_orders_as_there_are_trees() -> None:
    """(2n - 3)!! trees of n leaves, if left and right do not count."""
    for n, count in ((1, 1), (2, 1), (3, 3), (4, 15), (5, 105)):
        found = list(trees("abcde"[:n]))
        assert len(found) == len(set(found)) == count
        assert all(tree.canonical == tree for tree in found)


def test_no_order_has_a_cross_join() -> None:
    """A chain a - b - c - d: only neighbours can be joined, so the fifteen trees are five."""
    linked = {frozenset(pair) for pair in ("ab", "bc", "cd")}

    def joinable(left: frozenset[str], right: frozenset[str]) -> bool:
        return any(frozenset((x, y)) in linked for x in left for y in right)

    assert {str(tree) for tree in trees("abcd", joinable)} == {
        "a JOIN b JOIN c JOIN d",
        "a JOIN (b JOIN c) JOIN d",
        "a JOIN b JOIN (c JOIN d)",
        "a JOIN (b JOIN c JOIN d)",
        "a JOIN (b JOIN (c JOIN d))",
    }
