"""Chapter 5: dimensions, and what was known of them when."""
