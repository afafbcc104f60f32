"""Rules that place instances one by one along the ways to their sinks, and the amendment of a placement after changes."""
