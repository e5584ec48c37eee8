"""Times of partitions: arrivals, deadlines, volumes and percentiles."""
