"""Gold: aggregates, sessions and dimensions, in the shape that reports and applications need."""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:web-analytics")
