"""What Nexmark's queries must give, asked of DuckDB: an independent computation, written for itself.

Joins have no bands, windows are arithmetic, sessions are gaps. `arrivals` says when each bid arrived (q12).
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from godwit.workloads.nexmark_suite import side_rows

_WON = """SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_dateTime, b.extra AS bid_extra
          FROM auction a JOIN bid b ON a.id = b.auction WHERE b.dateTime BETWEEN a.dateTime AND a.expires"""
_HOPS = """SELECT auction, epoch_us(dateTime) // 2000000 * 2000000 - i * 2000000 AS start
           FROM bid, (SELECT unnest(range(5)) AS i)"""
_RANKS = "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000"


def _told(*calls: str) -> str:
    return ", ".join(f"{call}, " + ", ".join(f"{call} FILTER (WHERE {rank})" for rank in _RANKS) for call in calls)


_COUNTS = _told("count(*)", "count(DISTINCT bidder)", "count(DISTINCT auction)")
ANSWERS = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908::decimal(3, 3) * price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT name, city, state, a.id FROM auction a JOIN person p ON seller = p.id
             WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, avg(final) FROM (
              SELECT category, id, max(price) AS final FROM ({_WON}) GROUP BY ALL) GROUP BY 1""",
    "q5": f"""SELECT auction, n FROM (SELECT *, max(n) OVER (PARTITION BY start) AS most FROM (
              SELECT auction, start, count(*) AS n FROM ({_HOPS}) GROUP BY ALL)) WHERE n = most""",
    "q6": f"""SELECT seller, avg(final) OVER (PARTITION BY seller ORDER BY dateTime ROWS 10 PRECEDING) FROM (
              SELECT seller, id, dateTime, max(price) AS final FROM ({_WON}) GROUP BY ALL)""",
    "q7": """SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra FROM bid b JOIN (
               SELECT max(price) AS most, epoch_us(dateTime) // 10000000 * 10000000 AS start FROM bid GROUP BY 2) w
             ON b.price = most AND epoch_us(b.dateTime) BETWEEN start AND start + 10000000""",
    "q8": """SELECT DISTINCT p.id, name, time_bucket(INTERVAL 10 SECONDS, p.dateTime) FROM person p JOIN auction a
             ON p.id = seller AND epoch_us(p.dateTime) // 10000000 = epoch_us(a.dateTime) // 10000000""",
    "q9": f"""SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
                     auction, bidder, price, bid_dateTime, bid_extra
              FROM ({_WON}) QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, bid_dateTime) = 1""",
    "q10": """SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d'),
                     strftime(dateTime, '%H:%M') FROM bid""",
    "q11": """SELECT bidder, count(*), min(dateTime), max(dateTime) + INTERVAL 10 SECONDS FROM (
                SELECT *, sum(begins) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM (
                  SELECT *, CASE WHEN epoch_us(dateTime) - lag(epoch_us(dateTime), 1, -1000000000000)
                    OVER (PARTITION BY bidder ORDER BY dateTime) > 10000000 THEN 1 ELSE 0 END AS begins FROM bid))
              GROUP BY bidder, session""",
    "q12": """SELECT bidder, count(*), time_bucket(INTERVAL 10 SECONDS, arrived) AS s, s + INTERVAL 10 SECONDS
              FROM bid JOIN arrivals USING (source, dateTime) GROUP BY bidder, s""",
    "q13": """SELECT auction, bidder, price, dateTime, value FROM bid JOIN side_input ON auction % 10000 = key""",
    "q14": """SELECT auction, bidder, 0.908::decimal(3, 3) * price, 'nightTime', dateTime, extra,
                     len(list_filter(string_split(extra, ''), lambda c: c = 'c'))
              FROM bid WHERE price * 908 > 1000000000 AND price * 908 < 50000000000""",
    "q15": f"SELECT strftime(dateTime, '%Y-%m-%d'), {_COUNTS} FROM bid GROUP BY 1",
    "q16": f"""SELECT channel, strftime(dateTime, '%Y-%m-%d'), max(strftime(dateTime, '%H:%M')), {_COUNTS}
               FROM bid GROUP BY 1, 2""",
    "q17": f"""SELECT auction, strftime(dateTime, '%Y-%m-%d'), {_told("count(*)")}, min(price), max(price), avg(price),
                      sum(price)::bigint FROM bid GROUP BY 1, 2""",
    "q18": """SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid b WHERE NOT EXISTS (
                FROM bid c WHERE c.bidder = b.bidder AND c.auction = b.auction AND c.dateTime > b.dateTime)""",
    # (bids of one price are told apart by all columns in the order of their names: docs/sql.md)
    "q19": """SELECT *, row_number() OVER (PARTITION BY auction
                                           ORDER BY price DESC, bidder, channel, dateTime, extra, url)::int AS p
              FROM bid QUALIFY p <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, b.dateTime, b.extra, itemName, description, initialBid,
                     reserve, a.dateTime, expires, seller, category, a.extra
              FROM bid b JOIN auction a ON auction = id WHERE category = 10""",
    "q21": """SELECT auction, bidder, price, channel, CASE WHEN i > 0 THEN (i - 1)::varchar ELSE told END FROM (
                SELECT *, coalesce(list_position(['apple', 'google', 'facebook', 'baidu'], lower(channel)), 0) AS i,
                       regexp_extract(url, '&channel_id=([0-9]+)', 1) AS told FROM bid) WHERE i > 0 OR told <> ''""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5),
                     split_part(url, '/', 6) FROM bid""",
}
#: when bids arrived is in our log alone: of q12 what does not depend on it is compared
WITHOUT_ARRIVALS = {
    "q12": ("SELECT bidder, sum(bid_count) FROM {got} GROUP BY 1", "SELECT bidder, count(*) FROM bid GROUP BY 1")
}


def differences(query: str, events: Path, results: Path) -> tuple[int, int]:
    """(rows that are missing or too many among the results, rows that there should be); both are folders of files."""
    got, want = WITHOUT_ARRIVALS.get(query, ("SELECT * FROM {got}", ANSWERS[query]))
    with duckdb.connect() as database:
        for stream in sorted(folder for folder in events.iterdir() if folder.is_dir()):
            database.sql(f"CREATE VIEW {stream.name} AS {_read(stream)}")
        database.register("side_input", pa.Table.from_pylist(side_rows()))
        database.sql(f"CREATE VIEW results AS {_read(results)}")
        database.sql(f"CREATE TABLE want AS {want}")
        database.sql(f"CREATE TABLE got AS {got.format(got='results')}")
        sides = [f"SELECT {_alike(database, name)} FROM {name}" for name in ("want", "got")]
        apart = " UNION ALL ".join(f"(({a}) EXCEPT ALL ({b}))" for a, b in (sides, sides[::-1]))
        counted = database.sql(f"SELECT (SELECT count(*) FROM ({apart})), (SELECT count(*) FROM want)").fetchall()[0]
    return counted[0], counted[1]


def _read(folder: Path) -> str:
    """Times as UTC has them: DuckDB's zones are an extension."""
    files = f"read_parquet('{folder}/**/*.parquet')"
    columns = duckdb.sql(f"DESCRIBE SELECT * FROM {files}").fetchall()
    return f"SELECT {', '.join(_column(name, kind) for name, kind, *_ in columns)} FROM {files}"


def _column(name: str, kind: str) -> str:
    plain = f'make_timestamp(epoch_us("{name}")) AS "{name}"'
    return plain if kind.startswith("TIMESTAMP") else f'"{name}"'


def _alike(database: duckdb.DuckDBPyConnection, table: str) -> str:
    """Its columns by place, counts as one type, what was divided rounded: sums are formed in another order."""
    columns = database.sql(f"DESCRIBE {table}").fetchall()
    whole = {"INTEGER", "BIGINT", "HUGEINT", "TINYINT", "SMALLINT"}
    made = []
    for number, (name, kind, *_) in enumerate(columns):
        rounded = kind == "DOUBLE" or kind.startswith("DECIMAL")
        value = f'CAST("{name}" AS HUGEINT)' if kind in whole else f'round(CAST("{name}" AS DOUBLE), 4)'
        made.append(f"{value if rounded or kind in whole else chr(34) + name + chr(34)} AS c{number}")
    return ", ".join(made)
