"""What a commit's record says: the protocol's part, what was staged, the memory, and how the micro-batch went."""

from __future__ import annotations

import time

from godwit.ids import RegionId
from godwit.protocol.commit import ProtocolCommit
from godwit.region.batch import Memory, Outputs
from godwit.region.poll import Work
from godwit.storage.log import Record


def commit_record(
    region: RegionId, commit: ProtocolCommit, work: Work, outputs: Outputs, memory: Memory, kept: Record, started: float
) -> Record:
    """`kept`: the engine's part of the memory, whole or what changed; `started`: when the micro-batch began."""
    return {
        **commit.to_json(),
        "channels": outputs.channels,
        "results": [segment.to_json() for segment in outputs.results],
        "late": [[operator, segment.to_json()] for operator, segment in outputs.late],
        "handovers": outputs.handovers,
        **({"left": outputs.left} if outputs.left else {}),
        "arrived": [arrived.move.to_json() for arrived in work.arrived],
        "cuts": {str(e): known[region] for e, known in memory.cuts.items() if region in known},
        "memory": kept,
        "entered": work.entered,
        "newest_us": work.newest_us,
        "metrics": _metrics(work, outputs, memory, started),
    }


def _metrics(work: Work, outputs: Outputs, memory: Memory, started: float) -> Record:
    now = time.time()
    return {
        "wall": now,
        "took_ms": round((now - started) * 1000, 1),
        "rows_in": work.rows,
        "bytes_in": work.bytes,
        "by_source": work.by_source,
        "rows_out": sum(s.rows for s in outputs.results),
        "taken": {where: rows for where, rows in outputs.taken.items() if rows},
        "rows_late": sum(s.rows for _, s in outputs.late),
        "sent": [[p["to"], p["segment"]["rows"], p["segment"]["bytes"]] for p in outputs.channels],
        "handed_over": sum(s["bytes"] for h in outputs.handovers for part in h["parts"].values() for s in part),
        "latency_ms": None if work.entered is None else round((now - work.entered) * 1000, 1),
        "event_latency_ms": None if work.newest_us is None else round(now * 1000 - work.newest_us / 1000, 1),
        "state_rows": {str(key): state.rows for key, state in memory.states.items()},
        "state_bytes": {str(key): state.bytes for key, state in memory.states.items()},
    }
