"""The graph: one module per dataset, by layer."""
