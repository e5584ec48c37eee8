"""Tables of the reports, one module each."""
