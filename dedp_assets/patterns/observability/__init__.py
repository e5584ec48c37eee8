"""Chapter 10 of the book: data observability by detectors and by the lineage of datasets."""
