"""Position reports decide where a device is: at the nearest site, left only for one that is nearer by the hysteresis.

The same rule as for whole traces (`attach.py`), for one position at a time. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from godwit.errors import ConfigError
from godwit.ids import SiteId
from godwit.mobility.geo import to_xyz
from godwit.model.topology import Site


class NearestSite:
    """Sites that have coordinates, to search."""

    def __init__(self, sites: Iterable[Site], hysteresis_m: float = 0.0) -> None:
        placed = sorted((site for site in sites if site.lat is not None and site.lon is not None), key=lambda s: s.id)
        if not placed:
            msg = "no site has coordinates, so positions cannot say where devices are; give sites lat and lon"
            raise ConfigError(msg)
        self._sites = [site.id for site in placed]
        self._numbers = {site: number for number, site in enumerate(self._sites)}
        lat = np.array([site.lat for site in placed], dtype=np.float64)
        lon = np.array([site.lon for site in placed], dtype=np.float64)
        self._points, self._hysteresis = to_xyz(lat, lon), hysteresis_m

    def site(self, lat: float, lon: float, at: SiteId | None) -> SiteId:
        """Where a device belongs that is at a position, and attached to `at` now."""
        point = to_xyz(np.array([lat]), np.array([lon]))
        away = np.sqrt(((self._points - point) ** 2).sum(axis=1))
        nearest, here = int(away.argmin()), self._numbers.get(at) if at is not None else None
        if here is None:
            return self._sites[nearest]
        gain = float(away[here] - away[nearest])
        return self._sites[nearest] if gain > 0.0 and gain >= self._hysteresis else self._sites[here]
