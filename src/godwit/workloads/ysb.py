"""The Yahoo streaming benchmark: views of ads, counted per campaign and ten seconds (yahoo/streaming-benchmarks).

100 campaigns with 10 ads each; an event names an ad, which one of the campaigns has is looked up in a table. A third
of the events are views.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.workloads.base import Made, Reference, Settings, below

CAMPAIGNS, ADS = 100, 10
AD_TYPES = np.array(["banner", "modal", "sponsored-search", "mail", "mobile"])
EVENT_TYPES = np.array(["view", "click", "purchase"])
_COLUMNS = (
    "source string, user_id bigint, page_id bigint, ad_id bigint, ad_type string, event_type string, "
    "event_time timestamp, ip_address string"
)
AD_EVENTS = Stream(
    StreamId("ad_events"), tuple(Column(*part.split()) for part in _COLUMNS.split(", ")), "event_time", "source"
)


def ad_events(numbers: np.ndarray, at: np.ndarray, settings: Settings) -> Made:
    return {
        "ad_events": {
            "user_id": below(settings, 1, numbers, 100),
            "page_id": below(settings, 2, numbers, 100),
            "ad_id": below(settings, 3, numbers, CAMPAIGNS * ADS),
            "ad_type": AD_TYPES[below(settings, 4, numbers, len(AD_TYPES))],
            "event_type": EVENT_TYPES[below(settings, 5, numbers, len(EVENT_TYPES))],
            "ip_address": ["1.2.3.4"] * len(numbers),
        }
    }


def campaigns() -> list[dict[str, Any]]:
    return [{"ad_id": ad, "campaign_id": f"campaign-{ad // ADS}"} for ad in range(CAMPAIGNS * ADS)]


TABLE = Reference("campaigns", "ad_id bigint, campaign_id string", "ad_id", campaigns)
