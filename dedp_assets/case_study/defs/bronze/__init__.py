"""Bronze: raw data as landed."""
