// Runs a compiled Spark plan over few rows on the calling thread, without the scheduler (docs/design/0003-direct-plans.md).
// Compiled at session start by Janino, the compiler that Spark carries: no lambdas, no diamond operators.
package godwit;

import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics$;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.CheckpointRDDPartition;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;

public class DirectPlan {
    /** Below every number that the scheduler gives to a task, so that memory is never accounted to somebody else's. */
    private static final AtomicLong NUMBERS = new AtomicLong(-2L);
    /** The Arrow streams of the run on this thread, by the slot of the leaf that reads each. */
    private static final ThreadLocal STREAMS = new ThreadLocal();

    private final RDD batches;
    private final Properties settings;
    private final MemoryManager allMemory;

    public DirectPlan(RDD batches, Properties settings, MemoryManager allMemory) {
        this.batches = batches;
        this.settings = settings;
        this.allMemory = allMemory;
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

    /** Reads the leaves' rows from one file, runs the plan, writes its Arrow batches to another; returns their number. */
    public int run(String input, String output) throws Exception {
        ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(Paths.get(input)));
        byte[][] streams = new byte[in.getInt()][];
        for (int slot = 0; slot < streams.length; slot++) {
            streams[slot] = new byte[in.getInt()];
            in.get(streams[slot]);
        }
        int count = 0;
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(new FileOutputStream(output), 1 << 16));
        STREAMS.set(streams);
        try {
            Partition[] partitions = batches.partitions();
            for (int n = 0; n < partitions.length; n++) {
                count += runPartition(partitions[n], partitions.length, out);
            }
        } finally {
            STREAMS.remove();
            out.close();
        }
        return count;
    }

    private int runPartition(Partition partition, int partitions, DataOutputStream out) throws Exception {
        long number = NUMBERS.decrementAndGet();
        TaskMemoryManager memory = new TaskMemoryManager(allMemory, number);
        TaskContextImpl context = new TaskContextImpl(
            -1, 0, partition.index(), number, 0, partitions, memory, settings, null, TaskMetrics$.MODULE$.empty(),
            TaskContextImpl.$lessinit$greater$default$11(),
            TaskContextImpl.$lessinit$greater$default$12());
        TaskContext$.MODULE$.setTaskContext(context);
        int count = 0;
        scala.Option failure = scala.Option.empty();
        try {
            scala.collection.Iterator made = batches.iterator(partition, context);
            while (made.hasNext()) {
                byte[] batch = (byte[]) made.next();
                out.writeInt(batch.length);
                out.write(batch);
                count++;
            }
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
        return count;
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
            byte[][] streams = (byte[][]) STREAMS.get();
            return (scala.collection.Iterator) ArrowConverters$.MODULE$.fromIPCStreamWithIterator(streams[slot], context)._1();
        }
    }
}
