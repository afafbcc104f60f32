"""What the second edition had to improve: device moves, commit records, leftovers, source lines."""
