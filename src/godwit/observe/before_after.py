"""What a reconfiguration has changed: where instances and devices were before its epochs, and after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from godwit.errors import GodwitError
from godwit.storage.epoch_log import Control


def moved(control: Control, epochs: Sequence[int]) -> list[dict[str, Any]] | None:
    """{"what", "before", "after"} of everything that differs; None: these epochs are not kept any more."""
    if not epochs:
        return []
    try:
        before, after = control.deployment_at(max(min(epochs) - 1, 0)), control.deployment_at(max(epochs))
    except (GodwitError, KeyError, ValueError):
        return None
    if (int(before.epoch), int(after.epoch)) != (max(min(epochs) - 1, 0), max(epochs)):
        return None
    devices = ({f"device {name}": site for name, site in one.devices.items()} for one in (before, after))
    instances = ({str(name): str(site) for name, site in one.placement.items()} for one in (before, after))
    return [*_differences(*devices), *_differences(*instances)]


def _differences(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[dict[str, Any]]:
    names = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    return [{"what": name, "before": before.get(name), "after": after.get(name)} for name in names]
