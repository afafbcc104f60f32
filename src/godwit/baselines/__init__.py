"""What users would do without godwit, built with the same care."""
