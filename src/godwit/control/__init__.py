"""From a changed topology to a changed deployment: pure decisions."""
