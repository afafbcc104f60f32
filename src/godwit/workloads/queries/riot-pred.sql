-- A decision tree as a declared function, a linear model as a row of a reference table, and how far it was off.
SELECT p.station, avg(p.predicted) AS predicted, avg(abs(p.predicted - p.v4)) AS error,
  count_if(p.grade = 'BAD') AS bad, count(*) AS n, window.end AS until
FROM (
  SELECT o.station, o.v4, m.intercept + m.a * o.v0 + m.b * o.v1 AS predicted, riot_grade_{shape}(o.v0, o.v1) AS grade, o.ts
  FROM (
    SELECT station, 'linear' AS model, e[0].v AS v0, e[1].v AS v1, e[4].v AS v4, ts
    FROM (
      SELECT station, from_json(senml, 'e array<struct<n:string,u:string,v:double>>').e AS e, ts FROM observations
    )
  ) o JOIN models m ON o.model = m.name
) p
GROUP BY p.station, window(p.ts, '10 seconds')
