-- The average price of every ten items of a seller, one after the other. (Nexmark's q6 asks for closing prices, which
-- Falcon leaves out; here the price is the one an item begins with.)
SELECT seller, avg(initial) AS price, count_window.end AS until
FROM auction
GROUP BY seller, count_window(ts, 10)
