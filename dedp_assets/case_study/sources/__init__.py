"""Source systems of the case study: a blog with visitor events, and a devices reference."""
