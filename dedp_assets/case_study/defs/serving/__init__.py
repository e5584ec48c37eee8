"""Serving: gold in the places that applications read."""
