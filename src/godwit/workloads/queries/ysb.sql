SELECT c.campaign_id, count(*) AS views, max(e.event_time) AS latest, window.end AS until
FROM ad_events e JOIN campaigns c ON e.ad_id = c.ad_id
WHERE e.event_type = 'view'
GROUP BY c.campaign_id, window(e.event_time, '10 seconds')
