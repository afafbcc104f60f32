-- Published without a band; no auction is longer than 3,334 events, so from 167 events a second on 20 seconds change nothing.
SELECT /*+ keep('forever') */ Q.category, AVG(Q.final) AS average
FROM (
  SELECT MAX(B.price) AS final, A.id, A.category, A.`dateTime`
  FROM auction A JOIN bid B
    ON A.id = B.auction AND B.`dateTime` >= A.`dateTime` AND B.`dateTime` <= A.`dateTime` + INTERVAL '20' SECOND
  WHERE B.`dateTime` <= A.expires
  GROUP BY A.id, A.category, A.`dateTime`
) Q
GROUP BY Q.category
