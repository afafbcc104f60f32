"""The published placement instances."""
