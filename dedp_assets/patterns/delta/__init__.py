"""Delta tables: their log, and every write of rows as stage, audit, publish."""
