-- Traffic monitoring: the running average of each vehicle's speed, as long as it is above the limit.
SELECT /*+ keep('forever') */ vehicle, avg(speed) AS average
FROM speeds
GROUP BY vehicle
HAVING average > 50
