"""Chapter 8 of the book: data storage by layout, statistics, materialization and schema design."""
