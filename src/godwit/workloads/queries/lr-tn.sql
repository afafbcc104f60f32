-- Toll notification: speed and cars of each segment in the last minute, every second, and the toll that follows.
SELECT seg, avg(speed) AS speed, count(DISTINCT car) AS cars,
       CASE WHEN avg(speed) < 40 AND count(DISTINCT car) > 50
            THEN 2 * (count(DISTINCT car) - 50) * (count(DISTINCT car) - 50) ELSE 0 END AS toll,
       window.end AS until
FROM positions
GROUP BY seg, window(ts, '1 minute', '1 second')
