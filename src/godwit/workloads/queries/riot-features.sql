-- What a model is trained with: messages whose values are plausible.
SELECT station, e[0].v AS v0, e[1].v AS v1, e[4].v AS v4, ts
FROM (SELECT station, from_json(senml, 'e array<struct<n:string,u:string,v:double>>').e AS e, ts FROM observations)
WHERE e[0].v <= {high0} AND e[1].v <= {high1} AND e[4].v <= {high4}
