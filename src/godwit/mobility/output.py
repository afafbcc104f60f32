"""Write events from Spark as the files trace.py and nebula.py read, in order, without collecting them.

Spark sorts, makes the lines and writes them in parts; the parts are then put together byte by byte.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from godwit.mobility.nebula import UPDATES, numbers, write_fixed
from godwit.mobility.trace import Trace, header
from godwit.model.topology import Topology


def write_events(events: DataFrame, about: Trace, path: Path) -> None:
    """trace.jsonl from columns t, device, kind, site, previous. `about` carries what the header says, no events."""
    fields = sf.struct("t", "device", "kind", "site", "previous")
    lines = events.orderBy("t", "device").select(sf.to_json(fields, {"ignoreNullFields": "false"}).alias("value"))
    _join(lines, path, start=header(about) + "\n")


def write_stops(calls: DataFrame, path: Path) -> None:
    """calls.jsonl: where and when each train stops, from columns device, line, station, t."""
    lines = calls.orderBy("t", "device").select(sf.to_json(sf.struct("device", "line", "station", "t")).alias("value"))
    _join(lines, path)


def write_nebula_events(
    events: DataFrame, topology: Topology, devices: Sequence[str], start: Mapping[str, str], folder: Path
) -> None:
    """NebulaStream's files; what is attached at moment 0 (`start`) goes into initial_parents."""
    number = numbers(topology, devices)
    write_fixed(topology, number, devices, folder)
    spark = events.sparkSession
    ids = spark.createDataFrame(pa.table({"name": list(number), "n": list(number.values())}))

    def numbered(frame: DataFrame, column: str) -> DataFrame:
        named = ids.select(sf.col("name").alias(column), sf.col("n").alias(f"{column}_n"))
        return frame.join(sf.broadcast(named), column, "left")

    later = events.where("t > 0")
    for column in ("device", "site", "previous"):
        later = numbered(later, column)
    edits = sf.concat_ws(", ", _edit("previous_n", "remove"), _edit("site_n", "add"))
    moments = later.groupBy("t").agg(
        sf.array_sort(sf.collect_list(sf.struct("device", edits.alias("edits")))).alias("e")
    )
    text = sf.concat(
        sf.lit(',{"timestamp": '),
        sf.col("t").cast("string"),
        sf.lit(', "events": ['),
        sf.array_join("e.edits", ", "),
        sf.lit("]}"),
    )
    parents = json.dumps([[number[site], number[device]] for device, site in sorted(start.items())])
    head = f'{{"initial_parents": {parents}, "topology_updates": ['
    _join(
        moments.orderBy("t").select(text.alias("value")), folder / UPDATES, start=head, end="]}\n", skip=1, newline=" "
    )


def _edit(parent: str, action: str) -> Column:
    text = sf.concat(
        sf.lit('{"parentId": '),
        sf.col(parent).cast("string"),
        sf.lit(', "childId": '),
        sf.col("device_n").cast("string"),
        sf.lit(f', "action": "{action}"}}'),
    )
    return sf.when(sf.col(parent).isNotNull(), text)


def _join(lines: DataFrame, path: Path, start: str = "", end: str = "", skip: int = 0, newline: str = "\n") -> None:
    """One file from a sorted column of lines. `skip` drops the first characters: the comma before the first line."""
    with tempfile.TemporaryDirectory(prefix=".parts-", dir=path.parent) as folder:
        parts = Path(folder) / "parts"
        lines.write.option("lineSep", newline).text(str(parts))
        with path.open("wb") as whole:
            whole.write(start.encode())
            for part in sorted(parts.glob("part-*")):
                with part.open("rb") as text:
                    if part.stat().st_size and skip:
                        text.seek(skip)
                        skip = 0
                    shutil.copyfileobj(text, whole, 1 << 20)
            whole.write(end.encode())
