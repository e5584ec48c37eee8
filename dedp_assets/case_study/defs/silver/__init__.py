"""Silver: typed, validated, deduplicated."""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:web-analytics")
