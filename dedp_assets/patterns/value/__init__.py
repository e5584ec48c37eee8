"""Chapter 5 of the book: data value by joining, decorating, aggregating, sessionizing and ordering."""
