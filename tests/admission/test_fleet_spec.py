"""When streams count as drifted."""

from __future__ import annotations

import pytest

from godwit.admission.fleet_spec import LEAST_DRIFT_MBPS, drifted
from godwit.ids import DeviceId, StreamId
from godwit.model.deployment import Deployment
from godwit.model.plan import Column, Stream

CARS = StreamId("cars")
STREAMS = {CARS: Stream(CARS, (Column("ts", "timestamp"),), "ts", mbps=1.0)}
ONE, OTHER = (CARS, DeviceId("c1")), (CARS, DeviceId("c2"))


@pytest.mark.parametrize(
    ("used", "measured", "expected"),
    [
        ({}, {ONE: 1.2}, ()),  # declared: 1
        ({}, {ONE: 1.4}, (CARS,)),
        ({ONE: 1.4}, {ONE: 1.4}, ()),
        ({}, {ONE: 0.5, OTHER: 1.5}, ()),  # one less, one more
        ({ONE: 0.012}, {ONE: 0.004}, ()),  # falling silent: too little to plan for
        ({ONE: 0.0}, {ONE: LEAST_DRIFT_MBPS / 2}, ()),
        ({ONE: 0.0}, {ONE: 0.5}, (CARS,)),
        ({}, {(StreamId("gone"), DeviceId("x")): 9.0}, ()),
    ],
)
def test_what_has_drifted(used, measured, expected):
    assert drifted(Deployment(streams=STREAMS), used, measured, 0.3) == expected
