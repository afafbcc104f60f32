-- Published as a join with a file of 10,000 rows (key, key): what it adds is computed here.
SELECT auction, bidder, price, `dateTime`, CAST(MOD(auction, 10000) AS STRING) AS value FROM bid
