"""What a fleet behind HTTP costs: acknowledged ingest, and results pushed to many subscribers."""
