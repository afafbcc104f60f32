// Parquet files read so that the partitions of a scan are what they are told to be, in that order.
// Compiled at first use by Janino, the compiler that Spark carries: no lambdas, no diamond operators.
package org.apache.spark.sql.execution.datasources;

import java.io.Closeable;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath$;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType$;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/** What a scan reads: a list of parts of files for each partition. Spark hears of a file per partition, too large to be
    put together with another, and none larger than another, so that it leaves them in their order. */
public class GodwitScan implements FileIndex {
    static final String PARTS = "parts";
    static final long LARGE = 1L << 40;

    private final Seq partitions;
    private final String[] paths;
    private final long bytes;

    private GodwitScan(Object[] partitions, String[] paths, long bytes) {
        PartitionDirectory all = new PartitionDirectory(InternalRow$.MODULE$.empty(), seq(partitions));
        this.partitions = seq(new Object[] {all});
        this.paths = paths;
        this.bytes = bytes;
    }

    /** The rows as a DataFrame. `told`: of each part its partition, path, first byte and length, with zeros between.
        `selects`: SELECT lists over them, the innermost first, with ones between; all are analysed at once. */
    public static Object of(org.apache.spark.sql.classic.SparkSession session, String schema, String told,
            String selects) throws ParseException {
        String[] fields = told.split("\0");
        ArrayList partitions = new ArrayList();
        ArrayList mine = new ArrayList();
        String[] paths = new String[fields.length / 4];
        long bytes = 0;
        for (int at = 0; at < fields.length; at += 4) {
            GodwitPart part = new GodwitPart(fields[at + 1], Long.parseLong(fields[at + 2]), Long.parseLong(fields[at + 3]));
            paths[at / 4] = part.path;
            bytes += part.length;
            mine.add(part);
            if (at + 4 == fields.length || !fields[at + 4].equals(fields[at])) {
                partitions.add(partition(mine));
                mine = new ArrayList();
            }
        }
        StructType known = ((StructType) DataType$.MODULE$.fromJson(schema)).asNullable();
        Map none = (Map) Map$.MODULE$.empty();
        HadoopFsRelation relation = new HadoopFsRelation(new GodwitScan(partitions.toArray(), paths, bytes),
            new StructType(), known, Option.apply(null), new GodwitParquet(), none, session);
        LogicalPlan plan = (LogicalPlan) LogicalRelation$.MODULE$.apply(relation, false);
        String[] lists = selects.isEmpty() ? new String[0] : selects.split("\1");
        for (int n = 0; n < lists.length; n++) {
            plan = new Project(named(session.sessionState().sqlParser(), lists[n].split("\0")), plan);
        }
        return Dataset$.MODULE$.ofRows(session, plan);
    }

    private static Seq named(ParserInterface parser, String[] texts) throws ParseException {
        Object[] found = new Object[texts.length];
        for (int n = 0; n < texts.length; n++) {
            Expression text = parser.parseExpression(texts[n]);
            found[n] = text instanceof NamedExpression ? text : new UnresolvedAlias(text, Option.apply(null));
        }
        return seq(found);
    }

    private static FileStatusWithMetadata partition(ArrayList parts) {
        Path first = new Path(((GodwitPart) parts.get(0)).path);
        Map empty = (Map) Map$.MODULE$.empty();
        Map told = (Map) empty.updated(PARTS, parts.toArray());
        return new FileStatusWithMetadata(new FileStatus(LARGE, false, 1, LARGE, 0L, first), told);
    }

    private static Seq seq(Object[] all) {
        return (Seq) ArraySeq$.MODULE$.unsafeWrapArray(all);
    }

    public Seq rootPaths() {
        Object[] found = new Object[paths.length];
        for (int n = 0; n < paths.length; n++) {
            found[n] = new Path(paths[n]);
        }
        return seq(found);
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        return partitions;
    }

    public String[] inputFiles() {
        return paths;
    }

    public void refresh() {}

    public long sizeInBytes() {
        return bytes;
    }

    public StructType partitionSchema() {
        return new StructType();
    }
}

class GodwitPart implements Serializable {
    final String path;
    final long start;
    final long length;

    GodwitPart(String path, long start, long length) {
        this.path = path;
        this.start = start;
        this.length = length;
    }
}

class GodwitParquet extends ParquetFileFormat {
    public boolean isSplitable(SparkSession session, Map options, Path path) {
        return false;
    }

    public Function1 buildReaderWithPartitionValues(SparkSession session, StructType data, StructType partition,
            StructType required, Seq filters, Map options, Configuration conf) {
        return new GodwitReader(
            super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, conf));
    }
}

/** Reads the parts of a partition one after the other, each as Spark does. */
class GodwitReader extends AbstractFunction1 implements Serializable {
    private final Function1 reader;

    GodwitReader(Function1 reader) {
        this.reader = reader;
    }

    public Object apply(Object partition) {
        return new GodwitRows(reader, (PartitionedFile) partition);
    }
}

class GodwitRows extends AbstractIterator implements Closeable {
    private final Function1 reader;
    private final PartitionedFile partition;
    private final Object[] parts;
    private int read = 0;
    private Iterator rows = null;

    GodwitRows(Function1 reader, PartitionedFile partition) {
        this.reader = reader;
        this.partition = partition;
        this.parts = (Object[]) partition.otherConstantMetadataColumnValues().apply(GodwitScan.PARTS);
    }

    public boolean hasNext() {
        while (rows == null || !rows.hasNext()) {
            if (read == parts.length) {
                return false;
            }
            GodwitPart part = (GodwitPart) parts[read++];
            rows = (Iterator) reader.apply(partition.copy(partition.partitionValues(),
                SparkPath$.MODULE$.fromPathString(part.path), part.start, part.length, partition.locations(),
                partition.modificationTime(), part.start + part.length, (Map) Map$.MODULE$.empty()));
        }
        return true;
    }

    public Object next() {
        return rows.next();
    }

    public void close() throws IOException {
        if (rows instanceof Closeable) {
            ((Closeable) rows).close();
        }
    }
}
