-- The highest bid of every ten seconds, and whose it was.
SELECT b.auction, b.bidder, b.price, b.ts
FROM bid b JOIN (
  SELECT max(price) AS price, window.end AS until FROM bid GROUP BY window(ts, '10 seconds')) m
  ON b.price = m.price AND b.ts >= m.until - INTERVAL 10 SECONDS AND b.ts < m.until
