// A number in a plan that is no part of the code that Spark makes of it.
// Compiled at first use by Janino, the compiler that Spark carries.
package org.apache.spark.sql.catalyst.expressions;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode$;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode$;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.LongType$;

public class GodwitHeld extends LeafExpression implements java.io.Serializable {
    private final long value;

    public GodwitHeld(long value) {
        this.value = value;
    }

    public static Column of(long value) {
        return ExpressionUtils.column(new GodwitHeld(value));
    }

    public boolean nullable() {
        return false;
    }

    public DataType dataType() {
        return LongType$.MODULE$;
    }

    public Object eval(InternalRow row) {
        return Long.valueOf(value);
    }

    public ExprCode doGenCode(CodegenContext context, ExprCode code) {
        String held = context.addReferenceObj("held", Long.valueOf(value), "java.lang.Long");
        return ExprCode$.MODULE$.forNonNullValue(JavaCode$.MODULE$.expression(held + ".longValue()", dataType()));
    }

    public String toString() {
        return Long.toString(value);
    }

    public int productArity() {
        return 1;
    }

    public Object productElement(int n) {
        return Long.valueOf(value);
    }

    public boolean canEqual(Object other) {
        return other instanceof GodwitHeld;
    }

    public boolean equals(Object other) {
        return other instanceof GodwitHeld && ((GodwitHeld) other).value == value;
    }

    public int hashCode() {
        return Long.hashCode(value);
    }
}
