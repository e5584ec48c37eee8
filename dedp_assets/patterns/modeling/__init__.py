"""Chapter 5: dimensions, and the history of dimension values."""
