"""What the process of a region answers: rows of devices, news of other processes, questions about SQL; its status."""

from __future__ import annotations

import time

import pyarrow as pa

from godwit.delivery.json_rows import plain
from godwit.errors import SourceError
from godwit.ids import DeviceId, RegionId, StreamId
from godwit.ingest.batches import Batches
from godwit.ingest.schema import columns_of
from godwit.model.codec import decode, encode
from godwit.operators.schema import row_columns
from godwit.process.region_agent import RegionAgent
from godwit.process.wire import Head

#: how long nothing gathers after somebody has said that he waits; he says it again (seconds)
PRESSED_S = 2.0


class RegionService:
    """Frames in, frames out (`wire.Listener`)."""

    def __init__(self, agent: RegionAgent) -> None:
        self._agent = agent

    def handle(self, head: Head, body: bytes) -> tuple[Head, bytes] | None:
        agent = self._agent
        match head.get("do"):
            case "push":
                device = None if head.get("device") is None else DeviceId(head["device"])
                stream = StreamId(head["stream"])
                fits = agent.conform(stream, rows_of(body), device)
                taken = agent.push(stream, fits, device, head.get("sequence"))
                dead, unknown = (fits.dead, agent.gateway.said_of(stream, fits.unknown)) if taken else ([], {})
                return {"taken": taken, "dead": [plain(one) for one in dead], "unknown": unknown}, b""
            case "push_many":
                batches = Batches(rows_of(body), tuple((int(n), int(rows)) for n, rows in head["batches"]))
                count, dead = agent.push_many(StreamId(head["stream"]), batches, DeviceId(head["device"]))
                return {"taken": count, "dead": [plain(one) for one in dead]}, b""
            case "tell":
                agent.tell_time(StreamId(head["stream"]), {DeviceId(d): int(c) for d, c in head["clocks"].items()})
            case "end":
                return {"end": agent.end()}, b""
            case "close":
                devices = head.get("devices")
                agent.close(None if devices is None else [DeviceId(d) for d in devices], int(head["end"]))
            case "messages":
                agent.pool.announced(agent.region, head["shapes"], RegionId(head["from"]))
                return None
            case "epoch":
                agent.wake()
                return None
            case "columns":
                return {"columns": encode(columns_of(head["schema"]))}, b""
            case "analyse":
                for stream in decode(head["streams"]):
                    agent.analyst.declare(stream)
                if "sql" in head:
                    return {"columns": encode(agent.analyst.columns(head["sql"]))}, b""
                found = row_columns(agent.analyst.session, decode(head["query"]), head["operator"])
                return {"columns": encode(found)}, b""
            case "status":
                if head.get("waits"):
                    agent.pool.press_until(time.time() + PRESSED_S)
                return agent.status(), b""
            case other:
                msg = f"a region's process does not know '{other}'"
                raise SourceError(msg)
        return {}, b""


def rows_of(body: bytes) -> pa.Table:
    """Rows as they came, checked by the stream's schema afterwards."""
    try:
        return pa.ipc.open_stream(body).read_all()
    except (pa.ArrowException, OSError, ValueError) as fault:
        msg = f"rows must be an Arrow stream: {fault}"
        raise SourceError(msg) from fault


def as_body(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())
