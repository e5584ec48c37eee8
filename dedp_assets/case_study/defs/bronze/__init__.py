"""Bronze: raw data as landed."""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:ingestion")
