"""The file system that Spark's tasks write local files with: one that starts no process.

Hadoop sets the permissions of every file and folder that it makes by running `chmod`, where its native library is not
there (PySpark has none), and a task that writes a file of a large micro-batch waits for it. Files have the permissions
of the process instead, as those that Python writes.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from godwit.engine.added_classes import added

RAW = "org.apache.hadoop.fs.RawLocalFileSystem"
QUIET = "org.apache.hadoop.fs.GodwitLocalFileSystem"
_CLASS = """
package org.apache.hadoop.fs;
public class GodwitLocalFileSystem extends RawLocalFileSystem {
    public void setPermission(Path path, org.apache.hadoop.fs.permission.FsPermission permission) {}
}
"""
_WITHOUT = "files are written by Hadoop's own class, which runs chmod for each"


def file_system(spark: SparkSession) -> str:
    """The name of the class."""
    return QUIET if added(spark, QUIET, _CLASS, beside=RAW, without=_WITHOUT) else RAW
