"""Data observability: detectors of interrupted, skewed, lagging and late data; observed lineage."""
