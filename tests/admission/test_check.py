"""The judge itself: it must catch each kind of wrong state, or no other test means anything."""

from __future__ import annotations

import pytest

from godwit.admission.check import violations
from godwit.admission.model import Host, HostLink
from godwit.admission.state import LedgerSnapshot
from tests.admission.worlds import join, world

HOSTS = [Host("a", 20.0, 10.0, 10.1), Host("b", 20.0, 10.0, 10.1)]


def problem(links: list[HostLink] | None = None):
    network, catalog, (query,) = world(HOSTS, {"x": "a", "y": "b"}, [join("q", "x", "y")], links)
    return network, catalog, query


def state(served=(), flows=(), placed=()) -> LedgerSnapshot:
    return LedgerSnapshot(frozenset(served), frozenset(flows), frozenset(placed))


def test_good_state_passes() -> None:
    network, catalog, query = problem()
    x, _, q = query.streams
    good = state({(1, q)}, {(0, 1, x)}, {(1, query.operators[0])})
    assert violations(network, catalog, good, {q}) == []


@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (lambda x, y, q, o: (state({(1, q)}, (), {(1, o)}), {q}), "III.5b"),
        (lambda x, y, q, o: (state((), {(1, 0, x)}), set()), "III.5c"),
        (lambda x, y, q, o: (state({(0, q)}), {q}), "III.4a"),
        (lambda x, y, q, o: (state({(1, q)}, {(0, 1, x)}, {(1, o)}), set()), "III.4:"),
        (lambda x, y, q, o: (state({(0, q), (1, q)}, {(0, 1, x), (1, 0, y)}, {(0, o), (1, o)}), {q}), "III.4b"),
        (lambda x, y, q, o: (state(), {q}), "IV.9"),
        (lambda x, y, q, o: (state((), {(0, 1, q), (1, 0, q)}), set()), "III.7"),
    ],
)
def test_each_rule_is_caught(build, rule: str) -> None:
    network, catalog, query = problem()
    x, y, q = query.streams
    wrong, admitted = build(x, y, q, query.operators[0])
    assert any(rule in fault for fault in violations(network, catalog, wrong, admitted))


@pytest.mark.parametrize(("field", "rule"), [("cpu", "III.6d"), ("nic_in", "III.6b"), ("nic_out", "III.6c")])
def test_each_resource_is_caught(field: str, rule: str) -> None:
    small = [Host(h.id, **{**{k: getattr(h, k) for k in ("cpu", "nic_in", "nic_out")}, field: 5.0}) for h in HOSTS]
    network, catalog, (query,) = world(small, {"x": "a", "y": "b"}, [join("q", "x", "y")])
    x, _, q = query.streams
    used = state({(1, q)}, {(0, 1, x)}, {(1, query.operators[0])})
    assert any(rule in fault for fault in violations(network, catalog, used, {q}))


def test_missing_link_is_caught() -> None:
    network, catalog, query = problem([HostLink("b", "a", 50.0)])
    x, _, q = query.streams
    used = state({(1, q)}, {(0, 1, x)}, {(1, query.operators[0])})
    assert any("III.6a" in fault for fault in violations(network, catalog, used, {q}))
