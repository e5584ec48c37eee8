"""The source systems of the case study: a blog whose visitors produce events, and a devices reference."""
