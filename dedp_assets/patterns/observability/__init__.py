"""Chapter 10 of the book: detectors of data that does not come, comes late or in odd amounts, and lineage."""
