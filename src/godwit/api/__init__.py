"""What users hold: the fleet and its handles."""
