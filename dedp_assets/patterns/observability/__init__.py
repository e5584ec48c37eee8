"""Chapter 10 of the book: data observability by detectors of interruption, skew, lag and missed deadlines."""
