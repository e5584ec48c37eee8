"""What assets and sensors may touch: the Spark engine, the lake, the landing zone."""
