-- Parse, check ranges, drop who is not known, fill gaps by the last five values, one row per message again, annotate.
SELECT m.station, m.id, s.place, m.{0}, m.{1}, m.{2}, m.{3}, m.{4},
  to_json(named_struct('n', m.station, 'bt', m.id, 'place', s.place)) AS senml, m.ts
FROM (
  SELECT station, id, ts,
    max(CASE WHEN n = '{0}' THEN v END) AS {0}, max(CASE WHEN n = '{1}' THEN v END) AS {1},
    max(CASE WHEN n = '{2}' THEN v END) AS {2}, max(CASE WHEN n = '{3}' THEN v END) AS {3},
    max(CASE WHEN n = '{4}' THEN v END) AS {4}
  FROM (
    SELECT station, id, ts, n,
      coalesce(v, avg(v) OVER (PARTITION BY station, n ORDER BY ts ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING)) AS v
    FROM (
      SELECT o.station, o.id, o.ts, o.n, CASE WHEN o.v BETWEEN r.low AND r.high THEN o.v END AS v
      FROM (
        SELECT station, id, ts, item.n AS n, item.v AS v
        FROM observations
        LATERAL VIEW explode(from_json(senml, 'e array<struct<n:string,u:string,v:double>>').e) t AS item
      ) o JOIN ranges r ON CAST(o.n AS string) = r.n
    )
  )
  GROUP BY station, id, ts
) m JOIN stations s ON m.station = s.id
