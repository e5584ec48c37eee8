"""Resources of assets and sensors: Spark engine, lake, landing zone, clock, alerts, and settings."""
