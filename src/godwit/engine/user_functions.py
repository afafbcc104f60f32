"""Functions that a program brings with it, for queries to call: Python, or Python over Arrow arrays.

Spark runs them, in processes of its own. They are declared deterministic: a row that is processed again after a crash
must give the same, and the oracle calls them, too. What a name means is part of the program, not of the fleet's folder:
whoever opens the folder again declares its functions again, before rows are processed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.util import PythonEvalType

from godwit import names
from godwit.engine.plan_cache import java_of
from godwit.errors import ConfigError
from godwit.sql import functions as built_in

#: one value a row
_SCALAR = PythonEvalType.SQL_SCALAR_ARROW_UDF


class UserFunctions:
    """The functions of one fleet, by name."""

    def __init__(self, sessions: Sequence[SparkSession]) -> None:
        """`sessions`: those in which queries are checked and executed; none: other processes do that."""
        self._sessions = sessions
        self._known: dict[str, tuple[Callable[..., Any], str, bool]] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._known)

    def add(self, name: str, call: Callable[..., Any], type_: str, arrow: bool) -> None:
        """`type_`: Spark's name of the type that it returns. `arrow`: it takes and returns Arrow arrays."""
        problem = names.fault("column", name) or names.reserved("column", name)
        if problem is not None:
            raise ConfigError(problem)
        if not self._sessions:
            msg = "regions that run in other processes cannot call functions of this one"
            raise ConfigError(msg)
        if name.lower() in built_in.ALLOWED | built_in.REFUSED.keys() | built_in.RANKS | built_in.GENERATORS:
            msg = f"'{name}' is a function of Spark's; give yours another name"
            raise ConfigError(msg)
        for session in self._sessions:
            self._register(session, name.lower(), call, type_, arrow)
        # (only then: every oracle registers what is known)
        self._known[name.lower()] = call, type_, arrow

    def register(self, session: SparkSession) -> None:
        """Make all of them known in another session."""
        for name, known in self._known.items():
            self._register(session, name, *known)

    @staticmethod
    def _register(session: SparkSession, name: str, call: Callable[..., Any], type_: str, arrow: bool) -> None:
        spark: Any = F  # (its types do not tell of all of these)
        try:
            with warnings.catch_warnings():  # (Spark would rather read the annotations, which need not be there)
                warnings.simplefilter("ignore", UserWarning)
                made = spark.arrow_udf(call, type_, _SCALAR) if arrow else spark.udf(call, type_, useArrow=False)
            session.udf.register(name, made)
            java_of(session).calls(name, call)
        except PySparkException as error:
            msg = f"'{type_}' is not a type that Spark knows; write e.g. int, double, string or array<int>"
            raise ConfigError(msg) from error
