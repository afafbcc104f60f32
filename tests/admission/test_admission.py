"""The life of admission: submit, withdraw, batches, what-if, drift, hosts that come and go, refusals that help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from godwit.admission import (
    Admission,
    Admitted,
    Base,
    BaseStream,
    Host,
    HostLink,
    JoinSpec,
    RateQuery,
    Refused,
    Replanned,
    Unary,
)
from godwit.admission.model import HostNetwork
from godwit.admission.rates import Node
from godwit.errors import AdmissionError
from tests.admission.worlds import idle, join, judge

HOSTS = (Host("x", 45.0, 60.0, 60.0), Host("y", 45.0, 60.0, 60.0), Host("z", 45.0, 60.0, 60.0))
STREAMS = tuple(BaseStream(name, 10.0, ("xyz"[n % 3],)) for n, name in enumerate("abcdef"))


def enlarged(network, additions):
    """The network with the additions made."""
    hosts = list(network.hosts)
    links = None if network.links is None else dict(network.links)
    for extra in additions:
        number = network.number(extra.host)
        if extra.target is not None:
            if links is not None:
                pair = (number, network.number(extra.target))
                links[pair] = links.get(pair, 0.0) + extra.amount
        else:
            name = extra.resource
            hosts[number] = replace(hosts[number], **{name: getattr(hosts[number], name) + extra.amount})
    return HostNetwork(tuple(hosts), links)


def admission(hosts=HOSTS, streams=STREAMS, **more) -> Admission:
    return Admission(hosts, streams=streams, **more)


def check(one: Admission) -> None:
    judge(one.ledger, {one.ledger.catalog.number(one.plan(query).result) for query in one.admitted})


def test_shared_join_runs_once() -> None:
    one = admission()
    first, second = one.submit(join("ab", "a", "b")), one.submit(join("abc", "a", "b", "c"))
    assert isinstance(first, Admitted)
    assert isinstance(second, Admitted)
    assert second.reused == ("(a * b)",)
    everywhere = {(p.output, p.host) for q in ("ab", "abc") for p in one.plan(q).operators}
    assert sum(output == "(a * b)" for output, _ in everywhere) == 1
    assert any("[shared with ab]" in line for line in one.tree("abc").lines())
    check(one)


def test_unary_operators_are_shared_by_signature() -> None:
    one = admission()
    fast = Unary(Base("a"), "filter[speed > 30](a)", 0.1)
    assert isinstance(one.submit(RateQuery("fast", fast)), Admitted)
    answer = one.submit(RateQuery("count", Unary(fast, "count(filter[speed > 30](a))", 0.1, kind="aggregate")))
    assert isinstance(answer, Admitted)
    assert answer.reused == ("filter[speed > 30](a)",)
    assert [p.kind for p in answer.plan.operators] == ["filter", "aggregate"]
    check(one)


def test_withdraw_keeps_what_others_use_and_ends_at_zero() -> None:
    one = admission()
    for spec in (join("ab", "a", "b"), join("twin", "b", "a"), join("abc", "a", "b", "c")):
        assert isinstance(one.submit(spec), Admitted)
    for query in ("ab", "twin", "abc"):
        one.withdraw(query)
        check(one)
    assert idle(one.ledger)


def test_what_if_changes_nothing() -> None:
    one = admission()
    one.submit(join("ab", "a", "b"))
    before = one.ledger.snapshot()
    assert isinstance(one.submit(join("cd", "c", "d"), what_if=True), Admitted)
    assert one.ledger.snapshot() == before
    assert one.admitted == ("ab",)
    assert isinstance(one.submit(join("cd", "c", "d")), Admitted)
    check(one)


@pytest.mark.parametrize(
    ("hosts", "resource"),
    [
        ((Host("x", 15.0, 60.0, 60.0),), "cpu"),
        ((Host("x", 60.0, 60.0, 0.01),), "nic_out"),
        ((Host("x", 60.0, 4.0, 60.0), Host("y", 0.0, 4.0, 60.0)), "nic_in"),
    ],
)
def test_a_refusal_names_the_smallest_addition(hosts: tuple[Host, ...], resource: str) -> None:
    """With exactly the addition the query fits; with a little less it does not."""
    streams = (BaseStream("a", 10.0, ("x",)), BaseStream("b", 10.0, (hosts[-1].id,)))
    answer = admission(hosts, streams).submit(join("ab", "a", "b"))
    assert isinstance(answer, Refused)
    assert [addition.resource for addition in answer.additions] == [resource]
    assert answer.additions[0].host in answer.reason
    network = enlarged(admission(hosts, streams).ledger.network, answer.additions)
    assert isinstance(admission(network.hosts, streams).submit(join("ab", "a", "b")), Admitted)
    less = [type(a)(a.resource, a.host, 0.9 * a.amount, a.target) for a in answer.additions]
    network = enlarged(admission(hosts, streams).ledger.network, less)
    assert isinstance(admission(network.hosts, streams).submit(join("ab", "a", "b")), Refused)


def test_a_short_link_is_named() -> None:
    hosts = (Host("x", 20.0, 60.0, 60.0), Host("y", 20.0, 60.0, 60.0))
    links = [HostLink("x", "y", 4.0), HostLink("y", "x", 4.0)]
    answer = Admission(hosts, links, streams=STREAMS[:2]).submit(join("ab", "a", "b"))
    assert isinstance(answer, Refused)
    (addition,) = answer.additions
    assert (addition.resource, addition.amount) == ("link", pytest.approx(6.0, abs=1e-3))


def test_a_stream_without_home_is_named() -> None:
    answer = admission(streams=(STREAMS[0], BaseStream("b", 1.0, ()))).submit(join("ab", "a", "b"))
    assert isinstance(answer, Refused)
    assert "'b' has no home" in answer.reason
    assert answer.proved


def test_without_hosts_nothing_fits_until_one_joins() -> None:
    one = Admission([], streams=[BaseStream("a", 10.0, ()), BaseStream("b", 10.0, ())])
    answer = one.submit(join("ab", "a", "b"))
    assert isinstance(answer, Refused)
    assert "no host" in answer.reason
    one.host_joined(HOSTS[0])
    one.moved("a", ["x"])
    one.moved("b", ["x"])
    assert isinstance(one.submit(join("ab", "a", "b")), Admitted)
    check(one)


def test_drifting_rates_are_replanned() -> None:
    """Two joins share a host until one stream doubles; then one of them must go elsewhere."""
    hosts = (Host("x", 45.0, 200.0, 200.0), Host("y", 45.0, 200.0, 200.0))
    streams = tuple(BaseStream(name, 10.0, ("x",)) for name in "abcd")
    one = admission(hosts, streams, weights="pack")
    assert isinstance(one.submit(join("ab", "a", "b")), Admitted)
    assert isinstance(one.submit(join("cd", "c", "d")), Admitted)
    change = one.observe({"a": 22.0})
    assert not change.short
    assert one.plan("ab").operators[0].cpu == pytest.approx(32.0)
    check(one)


def test_small_drift_moves_nothing() -> None:
    one = admission()
    one.submit(join("ab", "a", "b"))
    before = one.plan("ab").host
    change = one.observe({"a": 10.5})
    assert change.migrations == ()
    assert one.plan("ab").host == before
    check(one)


def test_overload_is_reported_and_nothing_dropped() -> None:
    one = admission((Host("x", 25.0, 60.0, 60.0),), (BaseStream("a", 10.0, ("x",)), BaseStream("b", 10.0, ("x",))))
    one.submit(join("ab", "a", "b"))
    change = one.observe({"a": 40.0})
    assert [short.query for short in change.short] == ["ab"]
    assert one.admitted == ("ab",)
    assert not one.observe({"a": 10.0}).short
    check(one)


def test_a_host_leaves_and_another_joins() -> None:
    one = admission(streams=tuple(BaseStream(name, 10.0, ("x",)) for name in "abcd"))
    answers = one.submit_batch([join("ab", "a", "b"), join("cd", "c", "d"), join("ac", "a", "c"), join("bd", "b", "d")])
    assert all(isinstance(answer, Admitted) for answer in answers)
    gone = one.host_left("y")
    check(one)
    gone_too = one.host_left("z")
    check(one)
    assert gone.migrations or gone_too.migrations
    assert gone_too.stranded
    back = one.host_joined(Host("w", 100.0, 60.0, 60.0))
    assert not back.stranded
    assert set(one.admitted) == {"ab", "cd", "ac", "bd"}
    check(one)


def test_a_lost_home_strands_and_a_new_one_heals() -> None:
    one = admission()
    one.submit(join("ab", "a", "b"))
    assert [query.query for query in one.host_left("y").stranded] == ["ab"]
    with pytest.raises(AdmissionError, match="cannot run"):
        one.plan("ab")
    assert not one.moved("b", ["z"]).stranded
    check(one)


def test_pack_leaves_hosts_idle_and_balance_spreads() -> None:
    used = {}
    for weights in ("pack", "balance"):
        hosts = tuple(Host(name, 100.0, 1000.0, 1000.0) for name in "xyz")
        one = admission(hosts, tuple(BaseStream(name, 10.0, ("x", "y", "z")) for name in "abcdef"), weights=weights)
        for pair in ("ab", "cd", "ef"):
            assert isinstance(one.submit(join(pair, *pair)), Admitted)
        used[weights] = sum(row["cpu"][0] > 0 for row in one.usage().values())
        check(one)
    assert used == {"pack": 1, "balance": 3}


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda one: one.withdraw("nobody"), "not admitted"),
        (lambda one: one.submit(join("ab", "a", "b")), "taken"),
        (lambda one: one.host_left("nobody"), "not in the network"),
        (lambda one: one.host_joined(HOSTS[0]), "there already"),
        (lambda one: one.moved("nobody", []), "no base stream"),
        (lambda one: one.submit(RateQuery("p", JoinSpec((Base("a"), Base("nobody"))))), "no base stream"),
    ],
)
def test_wrong_calls_say_what_to_do(act, words: str) -> None:
    one = admission()
    one.submit(join("ab", "a", "b"))
    with pytest.raises(AdmissionError, match=words):
        act(one)
    check(one)


def test_refresh_keeps_what_runs_where_it_is_and_follows_the_ground() -> None:
    """Nothing new: nothing moves. A host gone, a stream elsewhere, a query less: the rest is valid and still there."""
    hosts = [Host(name, 100.0, 100.0, 100.0) for name in ("h0", "h1", "h2")]
    bases = [BaseStream("a", 10.0, ("h0",)), BaseStream("b", 10.0, ("h1",)), BaseStream("c", 10.0, ("h2",))]
    one = Admission(hosts, streams=bases)
    specs = [RateQuery("ab", JoinSpec((Base("a"), Base("b")))), RateQuery("bc", JoinSpec((Base("b"), Base("c"))))]
    assert all(isinstance(one.submit(spec), Admitted) for spec in specs)
    before = one._placements()
    same = one.refresh(hosts, None, bases, specs)
    assert same == Replanned()
    assert one._placements() == before
    moved = [replace(bases[0], homes=("h2",), rate=20.0), *bases[1:]]
    one.refresh(hosts[1:], None, moved, specs[:1])
    assert one.admitted == ("ab",)
    assert one.rate("a") == 20.0
    check(one)


def test_weigh_counts_what_is_not_there_yet() -> None:
    bases = [BaseStream(name, rate, ("h",)) for name, rate in (("a", 1.0), ("b", 2.0), ("c", 30.0))]
    one = Admission([Host("h", 1000.0, 1000.0, 1000.0)], streams=bases)

    def joined(*inputs: Node) -> JoinSpec:
        return JoinSpec(inputs, selectivity=0.5, cpu=1.0)

    small, large = (joined(joined(Base("a"), Base(x)), Base(y)) for x, y in (("b", "c"), ("c", "b")))
    assert one.weigh(small) == (2.0, 1.5 + 15.75)
    assert one.weigh(large) == (2.0, 15.5 + 8.75)
    one.submit(RateQuery("ab", joined(Base("a"), Base("b"))))
    assert one.weigh(small) == (1.0, 15.75)
