-- The published text is refused by Flink (FLINK-19059). Auctions are final here, in the order in which they began.
SELECT Q.seller, AVG(Q.final) OVER (PARTITION BY Q.seller ORDER BY Q.`dateTime` ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average
FROM (
  SELECT MAX(B.price) AS final, A.id, A.seller, A.`dateTime`
  FROM auction A JOIN bid B
    ON A.id = B.auction AND B.`dateTime` >= A.`dateTime` AND B.`dateTime` <= A.`dateTime` + INTERVAL '20' SECOND
  WHERE B.`dateTime` <= A.expires
  GROUP BY A.id, A.seller, A.`dateTime`
) AS Q
