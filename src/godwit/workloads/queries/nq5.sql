-- The auctions with most bids in the last minute, every second.
-- The top one of a window, exactly: the greatest count of all windows that end at one instant, joined back to the counts.
WITH counts AS (
  SELECT auction, count(*) AS bids, window.end AS until
  FROM bid GROUP BY auction, window(ts, '1 minute', '1 second')),
most AS (
  SELECT max(bids) AS bids, window.start AS until
  FROM counts GROUP BY window(until, '1 microsecond'))
SELECT c.auction, c.bids, c.until
FROM counts c JOIN most m ON c.bids = m.bids AND c.until = m.until
