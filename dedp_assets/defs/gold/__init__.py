"""Gold: in the shape its users ask for."""
