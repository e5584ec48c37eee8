"""Chapter 5 of the book: data made worth more by joining, decorating, aggregating, sessionizing and ordering it."""
