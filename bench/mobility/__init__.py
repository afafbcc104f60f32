"""How fast trips become hand-overs: generated countries, against scipy's KD-tree on one core."""
