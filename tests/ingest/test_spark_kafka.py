"""Kafka through Spark's own source, in a session of its own, against a real broker; skipped where Spark's package
cannot be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests import servers

PROGRAM = """
import json, sys
from pathlib import Path
from godwit import Fleet
from godwit.engine.session import spark_session
folder, address, jars, want = sys.argv[1:]
spark = spark_session(cores=2, quick=True, memory="1g", settings={"spark.jars": jars})
with Fleet(Path(folder), spark) as fleet:
    fleet.topology.load("sites: [{id: west}]\\n")
    fleet.stream("passengers", "train string, boarded int, ts timestamp", device="train")
    for train in ("t1", "t2"):
        fleet.device(train, site="west", streams=["passengers"])
    if not fleet.queries:
        fleet.submit("SELECT train, boarded, ts FROM passengers", "all")
    options = {"kafka.bootstrap.servers": address, "subscribe": "fleet", "startingOffsets": "earliest"}
    source = fleet.ingest("passengers", "kafka", **options)
    source.process_available()
    fleet.process_available()
    source.check()
    print("RESULT", json.dumps(sorted([r.train, r.boarded] for r in fleet.results("all").collect())))
"""


#: of another version than the source: Maven Central has none of them for it (4.0.1 to 4.2.0)
BESIDE = (
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def source_jars(version: str) -> list[Path]:
    """Spark's source of Kafka and what it needs at run time; the test is skipped where they cannot be had."""
    source = servers.package_jars("org.apache.spark", "spark-sql-kafka-0-10_2.13", version, alone=True)
    folders = [source, *(servers.package_jars(*one, alone=True) for one in BESIDE)]
    return sorted(jar for folder in folders for jar in folder.glob("*.jar"))


@pytest.mark.full
@pytest.mark.timeout(600)
def test_messages_come_in_once_over_a_restart(tmp_path: Path) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    version = os.environ.get("GODWIT_TEST_SPARK_KAFKA", "4.2.0")  # (the newest: there is none of Spark 4.3 yet)
    there = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    jars = [jar for jar in source_jars(version) if jar.name not in there]
    with servers.kafka(tmp_path) as address:
        producer = confluent.Producer({"bootstrap.servers": address})

        def send(*numbers: int) -> None:
            for n in numbers:
                row = {"boarded": n, "ts": f"2026-01-01T00:00:{n:02d}Z", **({"train": "t1"} if n % 2 else {})}
                producer.produce("fleet", json.dumps(row), key="t2")
            assert producer.flush(30) == 0

        def run(want: int) -> list[list[object]]:
            told = subprocess.run(
                [sys.executable, "-c", PROGRAM, tmp_path / "fleet", address, ",".join(map(str, jars)), str(want)],
                capture_output=True, text=True, timeout=240, check=False,
            )  # fmt: skip
            lines = [line for line in told.stdout.splitlines() if line.startswith("RESULT ")]
            assert lines, told.stdout + told.stderr
            found: list[list[object]] = json.loads(lines[0][7:])
            return found

        send(1, 2, 3)
        assert run(3) == [["t1", 1], ["t1", 3], ["t2", 2]]
        send(4, 5)
        assert run(5) == [["t1", 1], ["t1", 3], ["t1", 5], ["t2", 2], ["t2", 4]]
