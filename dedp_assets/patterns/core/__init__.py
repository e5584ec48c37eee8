"""What every pattern stands on, without I/O: errors, results, records, audits, rows, conversion, SQL types."""
