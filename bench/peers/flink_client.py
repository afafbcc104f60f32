"""Talks to Flink: runs in Flink's virtual environment, reads a JSON request per line, writes a JSON answer per line.

    {"do": "run", "statements": [...], "options": {...}}     INSERTs together in one job; answers when it has finished
    {"do": "serve", "port": P, "to": Q, "queries": {...}}    rows from a socket, results to a socket; answers the job
    {"do": "follow", "folder": F, "to": Q, "queries": {...}} rows from files as they appear; may go on from a savepoint
    {"do": "stop", "savepoint": true}                        stops the last job; answers the savepoint

Imports nothing of this project: the process stays up, so planning is warm as it would be in a gateway.
"""

from __future__ import annotations

import json
import sys
import time
import traceback

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, StreamTableEnvironment

#: the rows on a socket, or in files: device,key,value,milliseconds
COLUMNS = ("device STRING", "key BIGINT", "value INT", "ms BIGINT")


class Client:
    def __init__(self, rest: int, jars: list[str]) -> None:
        self._rest, self._jars = rest, jars
        self._job = None

    def answer(self, request: dict) -> dict:
        return getattr(self, f"_{request.pop('do')}")(**request)

    def _environment(self, options: dict, batch: bool = False) -> tuple:
        gateway = get_gateway()
        config = Configuration()
        for key, value in {"pipeline.jars": ";".join(self._jars), "table.local-time-zone": "UTC", **options}.items():
            config.set_string(key, str(value))
        names = gateway.new_array(gateway.jvm.String, 0)
        java = gateway.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
        remote = java.createRemoteEnvironment("127.0.0.1", self._rest, config._j_configuration, names)
        environment = StreamExecutionEnvironment(remote)
        settings = EnvironmentSettings.new_instance().in_streaming_mode().build()
        return environment, StreamTableEnvironment.create(environment, settings)

    def _run(self, statements: list, options: dict) -> dict:
        _, table = self._environment(options)
        inserts = table.create_statement_set()
        for statement in statements:
            if statement.lstrip().upper().startswith("INSERT"):
                inserts.add_insert_sql(statement)
            else:
                table.execute_sql(statement)
        began = time.perf_counter()
        result = inserts.execute()
        result.wait()
        return {"job": str(result.get_job_client().get_job_id()), "seconds": time.perf_counter() - began}

    def _serve(self, port: int, to: int, queries: dict, options: dict) -> dict:
        environment, table = self._environment(options)
        lines = environment._j_stream_execution_environment.socketTextStream("127.0.0.1", port)
        schema = get_gateway().jvm.org.apache.flink.table.api.Schema.newBuilder()
        for number, column in enumerate(COLUMNS):
            name, kind = column.split()
            schema.columnByExpression(name, f"CAST(SPLIT_INDEX(f0, ',', {number}) AS {kind})")
        schema.columnByExpression("ts", "TO_TIMESTAMP_LTZ(CAST(SPLIT_INDEX(f0, ',', 3) AS BIGINT), 3)")
        schema.watermark("ts", "ts")
        table._j_tenv.createTemporaryView("readings", lines, schema.build())
        return self._send(environment, table, queries, to)

    def _follow(self, folder: str, to: int, queries: dict, options: dict) -> dict:
        environment, table = self._environment(options)
        table.execute_sql(
            f"CREATE TEMPORARY TABLE readings (device STRING, `key` BIGINT, `value` INT, ms BIGINT, "
            f"ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', "
            f"'path' = 'file://{folder}', 'format' = 'csv', 'source.monitor-interval' = '10 ms')"
        )
        return self._send(environment, table, queries, to)

    def _send(self, environment: object, table: StreamTableEnvironment, queries: dict, to: int) -> dict:
        """Every query gives one text column; all go to one socket, in one job with one source."""
        jvm = get_gateway().jvm
        schema = jvm.org.apache.flink.api.common.serialization.SimpleStringSchema()
        for name, sql in queries.items():
            found = table.sql_query(f"SELECT CONCAT('{name},', CAST(line AS STRING), CHR(10)) FROM ({sql})")
            text = table._j_tenv.toDataStream(found._j_table, jvm.java.lang.Class.forName("java.lang.String"))
            text.writeToSocket("127.0.0.1", to, schema)
        self._job = environment._j_stream_execution_environment.executeAsync("peers")
        return {"job": str(self._job.getJobID())}

    def _stop(self, savepoint: bool) -> dict:
        job, self._job = self._job, None
        if not savepoint:
            job.cancel().get()
            return {}
        form = get_gateway().jvm.org.apache.flink.core.execution.SavepointFormatType.NATIVE
        return {"savepoint": job.stopWithSavepoint(False, None, form).get()}


def main() -> None:
    client = Client(int(sys.argv[1]), sys.argv[2:])
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            found = client.answer(json.loads(line))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
