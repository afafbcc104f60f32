-- Published without a band. The generator draws sellers from the last 1,000 people and 10 to come, so the band changes nothing.
SELECT P.name, P.city, P.state, A.id
FROM auction AS A INNER JOIN person AS P
  ON A.seller = P.id AND P.`dateTime` BETWEEN A.`dateTime` - INTERVAL '1' HOUR AND A.`dateTime` + INTERVAL '10' SECOND
WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')
