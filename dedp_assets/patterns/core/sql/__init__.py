"""SQL in declarations: names, faults, types and column lineage, judged without a query."""
