"""Chapter 2: bringing data in."""
