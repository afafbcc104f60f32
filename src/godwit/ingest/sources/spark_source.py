"""Any Spark streaming source as the source of a stream: files, rate, Kafka where its package is there.

The source has a streaming query of its own, with Spark's checkpoint in the fleet's folder. Spark repeats at most the
batch that was under way; the feeder knows its number and leaves out what came through, so rows come in exactly once.
"""

from __future__ import annotations

import logging

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from godwit.api.core import FleetCore
from godwit.errors import ConfigError, SourceError
from godwit.ids import StreamId
from godwit.ingest.sources.feeder import Feeder
from godwit.model.plan import Stream

log = logging.getLogger(__name__)


class SparkSource:
    """Feeds a stream from a streaming DataFrame until stopped. Reopened under the same name, it goes on."""

    def __init__(
        self, fleet: FleetCore, stream: StreamId, rows: DataFrame, name: str = "spark", ahead: int = 64
    ) -> None:
        self._feeder = Feeder(fleet, stream, name, ahead)
        self._rows, self.name = rows, f"{stream}/{name}"
        self._checkpoint = fleet.store.path(f"ingest/{stream}/{name}.checkpoint")
        self._query: StreamingQuery | None = None
        self._stopped = False
        self.failure: Exception | None = None
        _check(stream, rows, self._feeder)

    @property
    def rows(self) -> int:
        """Rows that came in through this source since it was opened."""
        return self._feeder.rows

    def start(self) -> SparkSource:
        writer = self._rows.writeStream.queryName(f"source {self.name}").foreachBatch(self._take)
        self._query = writer.option("checkpointLocation", self._checkpoint).start()
        return self

    def process_available(self) -> None:
        """Take in all that the source has now; not for sources that never end, such as rate."""
        assert self._query is not None
        try:
            self._query.processAllAvailable()
        except PySparkException as error:
            raise self._told(error) from error

    def check(self) -> None:
        """Raise if the source has failed."""
        if self._stopped:
            return
        if self.failure is not None:
            raise self._told(self.failure) from self.failure
        if self._query is not None and (error := self._query.exception()) is not None:
            raise self._told(error) from error

    def stop(self) -> None:
        """A batch that is under way is broken off; when the source is opened again, it comes in whole."""
        self._stopped = True
        if self._query is not None:
            self._query.stop()

    def _take(self, rows: DataFrame, batch: int) -> None:
        try:
            sequence = batch + 1
            if self._feeder.through(sequence):
                return
            self._feeder.wait(may_step=False)
            segment = self._feeder.stage(rows, sequence)
            if segment is not None:
                self._feeder.feed(segment, sequence, staged=True)
        except Exception as error:
            if self._stopped:
                # Spark looks through the message with a regular expression that a long one overflows.
                msg = f"source {self.name} was stopped while a batch was under way"
                raise SourceError(msg) from None
            self.failure = error
            log.exception("source %s has stopped", self.name)
            raise

    def _told(self, error: BaseException) -> SourceError:
        cause = self.failure or error
        msg = f"source {self.name} has stopped: {cause}. Mend the cause and open it again: it goes on where it was"
        return SourceError(msg)


def stream_of_format(spark: SparkSession, kind: str, options: dict[str, str]) -> DataFrame:
    """`spark.readStream.format(kind)`, with a clear word if Spark does not know the format."""
    try:
        return spark.readStream.format(kind).options(**options).load()
    except PySparkException as error:
        text = str(error).splitlines()[0]
        if "DATA_SOURCE_NOT_FOUND" not in str(error) and "Failed to find" not in str(error):
            msg = f"Spark cannot open a source of format '{kind}': {text}"
            raise SourceError(msg) from error
        msg = (
            f"Spark has no source of format '{kind}'; start the session with its package, e.g. "
            f"spark_session(settings={{'spark.jars.packages': 'org.apache.spark:spark-sql-kafka-0-10_2.13:"
            f"{spark.version}'}}) for kafka, or with its jar in spark.jars"
        )
        raise ConfigError(msg) from error


def json_messages(rows: DataFrame, stream: Stream) -> DataFrame:
    """What Spark's Kafka source delivers, as rows of a stream: a message is a JSON object; who sent it, if it does not
    say so, is the message's key."""
    types = ", ".join(f"`{column.name}` {column.type}" for column in stream.columns)
    row = F.from_json(F.col("value").cast("string"), types).alias("row")
    found = rows.select(row, F.col("key").cast("string").alias("key"))
    columns = [F.col(f"row.`{column.name}`").alias(column.name) for column in stream.columns]
    if stream.device is not None:
        place = [column.name for column in stream.columns].index(stream.device)
        columns[place] = F.coalesce(F.col(f"row.`{stream.device}`"), F.col("key")).alias(stream.device)
    return found.select(*columns)


def _check(stream: StreamId, rows: DataFrame, feeder: Feeder) -> None:
    if not rows.isStreaming:
        msg = f"the source of stream '{stream}' is not a streaming DataFrame; use spark.readStream, or fleet.replay"
        raise SourceError(msg)
    missing = [c.name for c in feeder.schema.stream.columns if c.name not in rows.columns]
    if missing:
        msg = f"the source of stream '{stream}' lacks column {', '.join(missing)}; it has {rows.columns}: select them"
        raise SourceError(msg)
