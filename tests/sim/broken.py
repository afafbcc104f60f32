"""Broken rules of the kernel, one each: a simulator that is worth something sees every one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from godwit.ids import Epoch
from godwit.model.deployment import Deployment
from godwit.protocol import kernel as kernel_module
from godwit.protocol.handover import MigrationLedger
from godwit.protocol.inputs import Inputs
from godwit.protocol.kernel import RegionKernel
from godwit.protocol.memory import Delta, Snapshot, difference
from godwit.protocol.watermarks import WatermarkTracker
from godwit.sim import region

_apply, _recover, _cut = RegionKernel._apply, RegionKernel.recover, MigrationLedger.cut


def _never_held(*_: Any) -> bool:
    return False


def _always_ready(self: MigrationLedger, markers: Any) -> list[Any]:
    return list(self.outgoing)


def _no_generations(*_: Any) -> int:
    return 0


def _follow_the_device(self: Deployment, query: Any, operator: int, device: Any, here: Any) -> Any:
    return self.home(query, operator, device) or here


def _one_session(self: WatermarkTracker, operator: int, source: str, mark: Any) -> None:
    self._marks[operator, source] = (mark,)


def _no_news(self: RegionKernel, inputs: Inputs[Any]) -> bool:
    _apply(self, inputs)
    return False


def _drained_at_once(self: MigrationLedger, regions: Any) -> dict[int, Epoch]:
    return dict.fromkeys(range(len(self.plan.operators)), self.epoch)


def _nothing(*_: Any) -> None:
    return None


def _without(table: str) -> Callable[..., RegionKernel]:
    def recover(
        where: Any, shape: Any, logs: Any, deployment: Any, memory: Snapshot, busy: bool = False
    ) -> RegionKernel:
        return _recover(where, shape, logs, deployment, replace(memory, **{table: {}}), busy)

    return staticmethod(recover)  # type: ignore[return-value]


def _delta_without(table: str) -> Callable[[Snapshot, Snapshot], Delta]:
    def shorter(before: Snapshot, after: Snapshot) -> Delta:
        found = difference(before, after)
        return replace(found, changed=replace(found.changed, **{table: {}}))

    return shorter


def _begin_at_zero(self: RegionKernel, before: Deployment, after: Deployment) -> None:
    for query in after.of_shape(self.shape.key):
        if query.id not in before.queries:
            self.start_positions[query.id] = {"source:": 0}


def _only_what_changed(self: RegionKernel, everything: bool) -> Any:
    """Ends of sessions are forgotten before they are published."""
    self._forget_published()
    return _publish(self, everything)


def _cut_to_the_epoch(self: MigrationLedger, markers: Any) -> None:
    _cut(self, dict.fromkeys(markers, self.epoch))


_publish = RegionKernel._publish

#: what is broken -> (where, its name, the broken rule, the first seed whose schedule sees it)
BROKEN: dict[str, tuple[Any, str, Any, int]] = {
    "state left behind": (region, "moves_between", lambda *_: [], 0),
    "clock not held": (MigrationLedger, "held", _never_held, 54),
    "no generations": (MigrationLedger, "owned_since", _no_generations, 535),
    "sent early": (MigrationLedger, "ready", _always_ready, 1336),
    "sessions ignored": (WatermarkTracker, "hear", _one_session, 651),
    "rows follow": (Deployment, "route", _follow_the_device, 2675),
    "news ignored": (RegionKernel, "_apply", _no_news, 0),
    "markers too early": (MigrationLedger, "markers", _drained_at_once, 725),
    "expected sources forgotten": (RegionKernel, "_expect", _nothing, 0),
    "marks lost by a restart": (RegionKernel, "recover", _without("marks"), 0),
    "announced state lost by a restart": (RegionKernel, "recover", _without("incoming"), 0),
    "state to send lost by a restart": (RegionKernel, "recover", _without("outgoing"), 0),
    "start positions wrong": (RegionKernel, "_begin_queries", _begin_at_zero, 1),
    "delta drops the marks": (kernel_module, "difference", _delta_without("marks"), 120),
    "delta drops the moves": (kernel_module, "difference", _delta_without("incoming"), 0),
    "delta drops the owners": (kernel_module, "difference", _delta_without("owners"), 0),
    "ends of sessions not published": (RegionKernel, "_publish", _only_what_changed, 0),
    "history cut too early": (MigrationLedger, "cut", _cut_to_the_epoch, 0),
    "idle peers never commit": (RegionKernel, "_must_publish", _never_held, 1),
}
