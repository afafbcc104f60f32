-- When a model is trained: whenever ten seconds are complete, with how many rows there are to train with.
SELECT count(*) AS n, window.start AS since, window.end AS until
FROM (SELECT from_json(senml, 'e array<struct<n:string,u:string,v:double>>').e AS e, ts FROM observations)
WHERE e[0].v <= {high0} AND e[1].v <= {high1} AND e[4].v <= {high4}
GROUP BY window(ts, '10 seconds')
