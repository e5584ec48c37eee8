"""Resources of assets and sensors: the Spark engine, the lake, the landing zone, databases, brokers, the clock."""
