"""Chapter 9: nobody sees rows that did not pass."""
