"""Chapter 6 of the book: data flow by sequences, fan-in, fan-out, and limits on concurrent runs."""
