"""A region at work: poll the logs, run a step, commit."""
