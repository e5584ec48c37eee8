"""Chapter 10 of the book: detectors of interruption, skew, lag and missed deadlines."""
