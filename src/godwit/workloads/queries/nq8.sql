-- People who sell something within an hour after they came. A window of an hour every second would hold each row 3,600
-- times; the band says the same of pairs, once each.
SELECT p.id, p.name, a.id AS auction, p.ts AS came, a.ts AS sold
FROM person p JOIN auction a
  ON p.id = a.seller AND a.ts BETWEEN p.ts AND p.ts + INTERVAL 1 HOUR
