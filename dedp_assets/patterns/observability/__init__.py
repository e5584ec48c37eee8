"""Chapter 10 of the book: detection of missing, late and uneven data, and the lineage of datasets."""
