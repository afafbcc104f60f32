-- Published without a band. A bid is for one of the last 100 auctions or for 10 to come, so the band changes nothing.
SELECT auction, bidder, price, channel, url, B.`dateTime` AS bid_dateTime, B.extra AS bid_extra, itemName, description, initialBid, reserve,
  A.`dateTime` AS auction_dateTime, expires, seller, category, A.extra AS auction_extra
FROM bid AS B INNER JOIN auction AS A
  ON B.auction = A.id AND A.`dateTime` BETWEEN B.`dateTime` - INTERVAL '1' HOUR AND B.`dateTime` + INTERVAL '10' SECOND
WHERE A.category = 10
