"""Platform: maintenance and checks of all tables, dead letters, alerts, deliveries to partners."""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:web-analytics")
