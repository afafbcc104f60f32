"""The streams that the SQL fixtures speak of."""

from godwit.ids import StreamId
from godwit.model.plan import Column, Stream
from godwit.model.tables import reference_table


def declare(name: str, ddl: str, time: str, device: str | None) -> Stream:
    columns = [part.strip().split(" ", 1) for part in ddl.split(";")]
    return Stream(StreamId(name), tuple(Column(n, t) for n, t in columns), time, device)


def table(name: str, ddl: str, key: str) -> Stream:
    columns = [part.strip().split(" ", 1) for part in ddl.split(";")]
    return reference_table(StreamId(name), tuple(Column(n, t) for n, t in columns), (key,))


STREAMS = {
    s.id: s
    for s in [
        declare(
            "passengers", "train string; coach int; boarded int; alighted int; ts timestamp", time="ts", device="train"
        ),
        declare("doors", "train string; coach int; opened int; open boolean; note string; ts timestamp", "ts", "train"),
        declare(
            "temps",
            "sensor string; train string; value double; cost decimal(10,2); place struct<lat:double,lon:double>; "
            "samples array<int>; calibrated timestamp; at timestamp",
            time="at",
            device="sensor",
        ),
        table("vehicles", "id string; model string; seats int", key="id"),
    ]
}
