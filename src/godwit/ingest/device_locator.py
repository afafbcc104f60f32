"""Where a device is, by what it sends: from a site's address, or with a position (nearest site, with hysteresis)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from godwit.errors import SourceError
from godwit.ids import DeviceId, SiteId
from godwit.mobility.nearest import NearestSite
from godwit.model.topology import Topology


@dataclass(frozen=True)
class PositionColumns:
    """By which columns position reports move devices."""

    lat: str = "lat"
    lon: str = "lon"
    hysteresis_m: float = 0.0


class DeviceLocator:
    """Asked with every message; the sites are prepared for the search when they change."""

    def __init__(self, topology: Callable[[], Topology], positions: PositionColumns | None) -> None:
        self._topology, self._positions = topology, positions
        self._nearest: tuple[object, float, NearestSite] | None = None

    def moved_to(self, device: DeviceId, rows: Any, named: str | None, otherwise: str | None = None) -> SiteId | None:
        """The site that a device has come to; None: it is where it was. `named`: from where it sends; `otherwise`:
        where it is if it was never reported."""
        known = self._topology().devices.get(device)
        now = None if known is None else known.site
        wanted = SiteId(named) if named is not None else self._by_rows(rows, now)
        if wanted is None and now is None and otherwise is not None:
            wanted = SiteId(otherwise)
        return wanted if wanted != now else None

    def at(self, device: DeviceId, lat: float, lon: float, hysteresis_m: float | None = None) -> SiteId | None:
        """The site that a position report moves a device to; None: it stays."""
        if not (math.isfinite(lat) and math.isfinite(lon) and abs(lat) <= 90 and abs(lon) <= 180):
            msg = f"({lat}, {lon}) is no position; give degrees, lat from -90 to 90 and lon from -180 to 180"
            raise SourceError(msg)
        known = self._topology().devices.get(device)
        now = None if known is None else known.site
        wanted = self._search(hysteresis_m).site(lat, lon, now)
        return wanted if wanted != now else None

    def _by_rows(self, rows: Any, now: SiteId | None) -> SiteId | None:
        if self._positions is None or not isinstance(rows, list) or not rows:
            return None
        row = rows[-1] if isinstance(rows[-1], dict) else {}
        lat, lon = row.get(self._positions.lat), row.get(self._positions.lon)
        if not isinstance(lat, int | float) or not isinstance(lon, int | float):
            return None
        return self._search(None).site(lat, lon, now)

    def _search(self, hysteresis_m: float | None) -> NearestSite:
        sites = self._topology().sites
        if hysteresis_m is None:
            hysteresis_m = 0.0 if self._positions is None else self._positions.hysteresis_m
        if self._nearest is None or self._nearest[:2] != (sites, hysteresis_m):
            self._nearest = (sites, hysteresis_m, NearestSite(sites.values(), hysteresis_m))
        return self._nearest[2]
