"""What is asked under a steady rate, in Spark's SQL (ours too) and in Flink's: four shapes, each with a literal.

Every question gives `at`, the time its latency counts from: the row's, or the window's end.
"""

from __future__ import annotations

from dataclasses import dataclass

_SPARK = {
    "filter": "SELECT device, value, ts AS at FROM readings WHERE value >= {x}",
    "window": """SELECT key, sum(value) AS total, window.end AS at FROM readings WHERE value >= {x}
                 GROUP BY key, window(ts, '2 seconds')""",
    "hop": """SELECT key, max(value) AS most, window.end AS at FROM readings WHERE value < {x}
              GROUP BY key, window(ts, '2 seconds', '1 second')""",
    "join": """SELECT a.value AS one, b.value AS other, b.ts AS at FROM readings a JOIN readings b
               ON a.device = b.device AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 500 MILLISECONDS
               WHERE a.value >= 980 AND b.value < {x}""",
}
#: `line`: the columns but `at`, with commas, then `at` in milliseconds
_END = "CAST(1000 * UNIX_TIMESTAMP(DATE_FORMAT(window_end, 'yyyy-MM-dd HH:mm:ss')) AS STRING)"
_FLINK = {
    "filter": """SELECT CONCAT_WS(',', device, CAST(`value` AS STRING), CAST(ms AS STRING)) AS line
                 FROM readings WHERE `value` >= {x}""",
    "window": f"""SELECT CONCAT_WS(',', CAST(`key` AS STRING), CAST(SUM(`value`) AS STRING), {_END}) AS line
                  FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '2' SECOND))
                  WHERE `value` >= {{x}} GROUP BY `key`, window_start, window_end""",
    "hop": f"""SELECT CONCAT_WS(',', CAST(`key` AS STRING), CAST(MAX(`value`) AS STRING), {_END}) AS line
               FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
               WHERE `value` < {{x}} GROUP BY `key`, window_start, window_end""",
    "join": """SELECT CONCAT_WS(',', CAST(a.`value` AS STRING), CAST(b.`value` AS STRING), CAST(b.ms AS STRING)) AS line
               FROM readings a JOIN readings b
               ON a.device = b.device AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '0.5' SECOND
               WHERE a.`value` >= 980 AND b.`value` < {x}""",
}


@dataclass(frozen=True)
class Question:
    name: str
    shape: str
    x: int

    @property
    def spark(self) -> str:
        return _SPARK[self.shape].format(x=self.x)

    @property
    def flink(self) -> str:
        return _FLINK[self.shape].format(x=self.x)


def ask(shape: str, count: int = 1) -> list[Question]:
    """So many questions of one shape; no two are alike."""
    return [Question(f"{shape}{n}", shape, 500 + 10 * n) for n in range(count)]


#: name in the report -> questions
SETS: dict[str, list[Question]] = {
    "1 filter": ask("filter"),
    "1 window of 2 s": ask("window"),
    "10 filters": ask("filter", 10),
    "10 windows": ask("window", 10),
    "12 queries of 4 shapes": [question for shape in _SPARK for question in ask(shape, 3)],
}
