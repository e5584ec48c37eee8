"""Platform: what keeps the tables of all layers in shape."""
