"""What the session's settings are for."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession


def test_what_is_broadcast_keeps_a_small_page(spark: SparkSession) -> None:
    """Hash tables take whole pages, and plans that are kept have many of them."""
    java, conf = cast("Any", spark._jvm), cast("Any", spark.sparkContext._jsc).sc().conf()
    memory = java.org.apache.spark.memory.UnifiedMemoryManager.apply(conf, 2)
    assert memory.pageSizeBytes() <= 4 << 20
