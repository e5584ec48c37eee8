"""Facts about tables and runs for the detectors of observability."""
