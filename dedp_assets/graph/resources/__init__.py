"""Resources of assets and sensors: Spark engine, lake, landing zone, databases, brokers, clock."""
