-- Per station and field: block average, second-order moment, distinct values, linear regression over time.
SELECT station, n, avg(v) AS mean, avg(v * v) AS moment, count(DISTINCT v) AS different,
  regr_slope(v, second) AS slope, regr_intercept(v, second) AS intercept, window.end AS until
FROM (
  SELECT station, item.n AS n, item.v AS v, unix_micros(ts) % 60000000 / 1e6 AS second, ts
  FROM observations
  LATERAL VIEW explode(from_json(senml, 'e array<struct<n:string,u:string,v:double>>').e) t AS item
)
GROUP BY station, n, window(ts, '10 seconds')
