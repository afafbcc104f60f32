// Runs a Spark plan over few rows on the calling thread, without the scheduler (docs/design/0003-direct-plans.md).
// Compiled at session start by Janino, the compiler that Spark carries: no lambdas, no diamond operators.
package godwit;

import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.executor.TaskMetrics$;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.memory.UnifiedMemoryManager$;
import org.apache.spark.rdd.CheckpointRDDPartition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.RDDScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils$;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

public class DirectPlan {
    /** Below every number that the scheduler gives to a task, so that memory is never accounted to somebody else's. */
    private static final AtomicLong NUMBERS = new AtomicLong(-2L);
    /** The rows of the run on this thread, by the slot of the leaf that reads them. */
    private static final ThreadLocal INPUTS = new ThreadLocal();
    /** Rows of one Arrow batch that comes out, at most. */
    private static final int MOST = 10000;
    /** Plans by the numbers that runs name them by; Python keeps those that it may name. */
    private static final ConcurrentHashMap PLANS = new ConcurrentHashMap();
    private static final AtomicInteger LAST = new AtomicInteger();
    /** What the bytes of an Arrow schema say; of so many at most. */
    private static final ConcurrentHashMap SCHEMAS = new ConcurrentHashMap();
    private static final int MOST_SCHEMAS = 4096;

    private final int number = LAST.incrementAndGet();
    private final RDD rows;
    private final Schema schema;
    private final Properties settings;
    private final MemoryManager allMemory;
    private final TaskMetrics metrics = TaskMetrics$.MODULE$.empty();

    public DirectPlan(RDD rows, StructType schema, Properties settings, MemoryManager allMemory) {
        this.rows = rows;
        this.schema = ArrowUtils$.MODULE$.toArrowSchema(schema, "UTC", true, false, ArrowUtils$.MODULE$.toArrowSchema$default$5());
        this.settings = settings;
        this.allMemory = allMemory;
        PLANS.put(Integer.valueOf(number), new WeakReference(this));
        if (number % 256 == 0) {
            forgetCollected();
        }
    }

    private static void forgetCollected() {
        java.util.Iterator all = PLANS.values().iterator();
        while (all.hasNext()) {
            if (((WeakReference) all.next()).get() == null) {
                all.remove();
            }
        }
    }

    public int number() {
        return number;
    }

    /** Memory in small pages: a plan over few rows takes a page for each grouping and join, and Java clears it first. */
    public static MemoryManager memory(SparkContext context, String page) {
        SparkConf conf = context.getConf().clone().set("spark.buffer.pageSize", page);
        return UnifiedMemoryManager$.MODULE$.apply(conf, 1);
    }

    /** The rows of a plan: as compiled, or with every operator and expression interpreted. */
    public static RDD rowsOf(SparkPlan plan, boolean compiled) {
        return compiled ? plan.execute() : interpreted(plan).execute();
    }

    private static SparkPlan interpreted(SparkPlan plan) {
        if (plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter) {
            return interpreted((SparkPlan) plan.children().head());
        }
        if (plan instanceof CoalesceExec && plan.children().head() instanceof RDDScanExec) {
            return (SparkPlan) plan.children().head(); // (a leaf has one partition)
        }
        List below = new ArrayList();
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) {
            below.add(interpreted((SparkPlan) all.next()));
        }
        if (below.isEmpty()) {
            return plan;
        }
        return (SparkPlan) plan.withNewChildren(
            (scala.collection.immutable.Seq) scala.jdk.javaapi.CollectionConverters.asScala(below).toSeq());
    }

    /** Whether the plan can run here: no stage of it needs the scheduler. */
    public static boolean fits(RDD rdd) {
        scala.collection.Iterator all = rdd.dependencies().iterator();
        while (all.hasNext()) {
            Dependency one = (Dependency) all.next();
            if (one instanceof ShuffleDependency || !fits(one.rdd())) {
                return false;
            }
        }
        return true;
    }

    /**
     * Reads the numbers of plans and the leaves' rows from one file, runs the plans over the rows, writes what they make
     * to another: for each [batches], each batch [length][record batch]; returns the length of it all. If the first one
     * fails, so does the call; of others that fail, the number of batches is -1.
     */
    static int run(RowFiles files) throws Exception {
        BufferAllocator allocator = ArrowUtils$.MODULE$.rootAllocator().newChildAllocator("godwit", 0L, Long.MAX_VALUE);
        VectorSchemaRoot[] roots = new VectorSchemaRoot[0];
        try {
            ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(Paths.get(files.input)));
            int[] numbers = new int[in.getInt()];
            for (int n = 0; n < numbers.length; n++) {
                numbers[n] = in.getInt();
            }
            roots = read(in, allocator);
            DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(files.output), 1 << 16));
            try {
                for (int n = 0; n < numbers.length; n++) {
                    plan(numbers[n]).runInto(out, roots, allocator, n == 0);
                }
                return out.size();
            } finally {
                out.close();
            }
        } finally {
            for (int slot = 0; slot < roots.length; slot++) {
                if (roots[slot] != null) {
                    roots[slot].close();
                }
            }
            allocator.close();
        }
    }

    private static DirectPlan plan(int number) {
        return (DirectPlan) ((WeakReference) PLANS.get(Integer.valueOf(number))).get();
    }

    private void runInto(DataOutputStream out, VectorSchemaRoot[] roots, BufferAllocator allocator, boolean fails)
            throws Exception {
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        int count = -1;
        try {
            count = runAll(roots, new DataOutputStream(made), allocator);
        } catch (Exception failed) {
            if (fails) {
                throw failed;
            }
        }
        out.writeInt(count);
        if (count > 0) {
            made.writeTo(out);
        }
    }

    private int runAll(VectorSchemaRoot[] roots, DataOutputStream out, BufferAllocator allocator) throws Exception {
        int count = 0;
        INPUTS.set(roots);
        try {
            Partition[] partitions = rows.partitions();
            for (int n = 0; n < partitions.length; n++) {
                count += runPartition(partitions[n], partitions.length, out, allocator);
            }
        } finally {
            INPUTS.remove();
        }
        return count;
    }

    private int runPartition(Partition partition, int partitions, DataOutputStream out, BufferAllocator allocator)
            throws Exception {
        long number = NUMBERS.decrementAndGet();
        TaskMemoryManager memory = new TaskMemoryManager(allMemory, number);
        TaskContextImpl context = new TaskContextImpl(
            -1, 0, partition.index(), number, 0, partitions, memory, settings, null, metrics,
            TaskContextImpl.$lessinit$greater$default$11(),
            TaskContextImpl.$lessinit$greater$default$12());
        TaskContext$.MODULE$.setTaskContext(context);
        scala.Option failure = scala.Option.empty();
        try {
            return write(rows.iterator(partition, context), out, allocator);
        } catch (Throwable thrown) {
            failure = scala.Option.apply(thrown);
            context.markTaskFailed(thrown);
            if (thrown instanceof Exception) {
                throw (Exception) thrown;
            }
            throw (Error) thrown;
        } finally {
            try {
                context.markTaskCompleted(failure);
            } finally {
                memory.cleanUpAllAllocatedMemory();
                allMemory.releaseAllExecutionMemoryForTask(number);
                TaskContext$.MODULE$.unset();
            }
        }
    }

    /** [slots], then for each [length of its schema][schema][batches], each batch [length][record batch]; length 0: none. */
    private static VectorSchemaRoot[] read(ByteBuffer in, BufferAllocator allocator) throws Exception {
        VectorSchemaRoot[] roots = new VectorSchemaRoot[in.getInt()];
        for (int slot = 0; slot < roots.length; slot++) {
            byte[] known = bytes(in);
            if (known.length == 0) {
                continue;
            }
            roots[slot] = VectorSchemaRoot.create(schemaOf(known), allocator);
            byte[] batch = bytes(in);
            if (batch.length > 0) {
                ArrowRecordBatch loaded = MessageSerializer.deserializeRecordBatch(channel(batch), allocator);
                try {
                    new VectorLoader(roots[slot]).load(loaded);
                } finally {
                    loaded.close();
                }
            }
        }
        return roots;
    }

    private static Schema schemaOf(byte[] known) throws Exception {
        ByteBuffer key = ByteBuffer.wrap(known);
        Schema found = (Schema) SCHEMAS.get(key);
        if (found != null) {
            return found;
        }
        found = MessageSerializer.deserializeSchema(channel(known));
        for (int n = 0; n < found.getFields().size(); n++) {
            Field field = (Field) found.getFields().get(n);
            if (field.getDictionary() != null) {
                throw new IllegalArgumentException("column " + field.getName() + " is dictionary-encoded");
            }
        }
        if (SCHEMAS.size() >= MOST_SCHEMAS) {
            SCHEMAS.clear();
        }
        SCHEMAS.put(key, found);
        return found;
    }

    private static byte[] bytes(ByteBuffer in) {
        byte[] found = new byte[in.getInt()];
        in.get(found);
        return found;
    }

    private static ReadChannel channel(byte[] bytes) {
        return new ReadChannel(Channels.newChannel(new ByteArrayInputStream(bytes)));
    }

    private int write(scala.collection.Iterator made, DataOutputStream out, BufferAllocator allocator) throws Exception {
        int count = 0;
        if (!made.hasNext()) {
            return count;
        }
        VectorSchemaRoot root = VectorSchemaRoot.create(schema, allocator);
        try {
            List vectors = root.getFieldVectors();
            for (int n = 0; n < vectors.size(); n++) {
                ((FieldVector) vectors.get(n)).setInitialCapacity(64);
            }
            ArrowWriter writer = ArrowWriter.create(root);
            while (made.hasNext()) {
                for (int n = 0; n < MOST && made.hasNext(); n++) {
                    writer.write((InternalRow) made.next());
                }
                writer.finish();
                ArrowRecordBatch batch = new VectorUnloader(root).getRecordBatch();
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                try {
                    MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), batch);
                } finally {
                    batch.close();
                }
                out.writeInt(bytes.size());
                bytes.writeTo(out);
                writer.reset();
                count++;
            }
        } finally {
            root.close();
        }
        return count;
    }

    /** Where rows come from and go to; one of these for a thread. */
    public static class RowFiles {
        final String input;
        final String output;

        public RowFiles(String input, String output) {
            this.input = input;
            this.output = output;
        }

        /** One call without arguments: PySpark asks of each whether it is one of ten other things. */
        public int run() throws Exception {
            return DirectPlan.run(this);
        }
    }

    /** A leaf: its one partition is whatever the run on this thread has brought for its slot. */
    public static class Rows extends RDD {
        private final int slot;

        public Rows(SparkContext context, scala.reflect.ClassTag row, int slot) {
            super(context, (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$, row);
            this.slot = slot;
        }

        public Partition[] getPartitions() {
            return new Partition[] {new CheckpointRDDPartition(0)};
        }

        public scala.collection.Iterator compute(Partition split, TaskContext context) {
            VectorSchemaRoot root = ((VectorSchemaRoot[]) INPUTS.get())[slot];
            ColumnVector[] columns = new ColumnVector[root.getFieldVectors().size()];
            for (int n = 0; n < columns.length; n++) {
                columns[n] = new ArrowColumnVector((FieldVector) root.getFieldVectors().get(n));
            }
            java.util.Iterator found = new ColumnarBatch(columns, root.getRowCount()).rowIterator();
            return scala.jdk.javaapi.CollectionConverters.asScala(found);
        }
    }
}
