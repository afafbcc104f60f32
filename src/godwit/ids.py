"""The names of things: plain strings and numbers at run time, distinct types to the type checker."""

from typing import NewType

SiteId = NewType("SiteId", str)
DeviceId = NewType("DeviceId", str)
#: a site or a device: whatever can host an operator
NodeId = NewType("NodeId", str)
RegionId = NewType("RegionId", str)
StreamId = NewType("StreamId", str)
QueryId = NewType("QueryId", str)
DqpId = NewType("DqpId", str)
#: version of the deployment tables; every row is processed under exactly one
Epoch = NewType("Epoch", int)

#: every region whose name is given, or none: the region of a topology that names no regions
DEFAULT_REGION = RegionId("main")
