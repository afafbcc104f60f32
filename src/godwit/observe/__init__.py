"""What a fleet shows of itself: status, metrics, history."""
