"""How the state of a moved instance reaches its new home: strategies that yield steps; others carry them out."""
