"""Gold: aggregates, sessions and dimensions, in the shape that reports and applications need."""
