"""Chapter 3: bad records, duplicates, late data."""
