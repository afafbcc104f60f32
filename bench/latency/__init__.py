"""How long few rows take: plans, and from a push to its answer."""
