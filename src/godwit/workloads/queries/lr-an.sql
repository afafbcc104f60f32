-- Accident notification: a car that reports one position ten times running has broken down; cars that reported from its
-- segment within the last 30 seconds are told. (A car reports every 30 seconds, so those are the cars that are there.)
WITH stopped AS (
  SELECT car, seg, ts
  FROM (SELECT car, seg, ts, min(pos) OVER w AS low, max(pos) OVER w AS high, count(*) OVER w AS reports
        FROM positions
        WINDOW w AS (PARTITION BY car ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW))
  WHERE low = high AND reports = 10)
SELECT s.car AS broken, p.car AS told, s.seg, s.ts AS seen, p.ts AS last_report
FROM stopped s JOIN positions p
  ON s.seg = p.seg AND p.ts BETWEEN s.ts - INTERVAL 30 SECONDS AND s.ts
WHERE s.car <> p.car
