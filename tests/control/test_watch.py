"""The re-optimiser decides purely: it moves what rates have made slow, once, and does not go to and fro."""

from __future__ import annotations

from godwit.control.control_plane import ControlPlane
from godwit.control.reoptimiser import Seen, Watch, Watching
from godwit.ids import DeviceId, SiteId
from godwit.model.changes import DeviceMoved
from godwit.placement.reoptimise import Policy
from tests.control.worlds import aggregate, control, tree

#: each edge site of 50 units takes 500 rows a second, the cloud 10,000
WATCHING = Watching(Policy(patience=2, cooldown_s=5, memory_s=20, budget_s=0.05), rows_per_unit=10.0)


def looked(plane: ControlPlane, watch: Watch, at: float, rows: float) -> list[str]:
    """One look at every device sending so much; moves are carried out. Returns the verdicts."""
    told = watch.look(plane.planner, Seen(at, {f"left/d{k}": rows for k in range(1, 6)}))
    for advice in told:
        if advice.decision.verdict == "move":
            plane.hint(advice.hints, advice.text)
            assert plane.planner.violations() == []
    return [advice.decision.verdict for advice in told]


def test_it_moves_what_a_drift_has_made_slow_and_only_once():
    plane, watch = control(tree(), automatic=True), Watch(WATCHING)
    plane.submit(aggregate("q", ["d1"]))
    before = dict(plane.deployment.placement)
    quiet = [looked(plane, watch, at, 10.0) for at in range(5)]
    assert quiet == [[]] * 5
    drifted = [looked(plane, watch, 5.0 + at, 450.0) for at in range(20)]
    assert drifted[1] == ["move"]
    assert sum(verdicts.count("move") for verdicts in drifted) == 1
    moved = {name for name, node in plane.deployment.placement.items() if before[name] != node}
    assert moved
    assert not any(name.operator in (0, 4) for name in moved)  # sources and sinks stay


def test_it_does_not_flap_when_rates_go_up_and_down():
    plane, watch = control(tree(), automatic=True), Watch(WATCHING)
    plane.submit(aggregate("q", ["d1"]))
    moves = 0
    for at in range(60):
        moves += looked(plane, watch, float(at), 10.0 if at % 6 < 3 else 450.0).count("move")
    assert moves == 1


def test_a_query_whose_device_hops_is_watched_on():
    plane, watch = control(tree(), automatic=True), Watch(WATCHING)
    plane.submit(aggregate("q", ["d1"]))
    looked(plane, watch, 0.0, 10.0)
    plane.change([DeviceMoved(DeviceId("d1"), SiteId("e3"))])
    assert [looked(plane, watch, 1.0 + at, 10.0) for at in range(3)] == [[]] * 3
