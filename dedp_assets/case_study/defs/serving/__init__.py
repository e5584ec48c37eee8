"""Serving: gold in the places that applications read."""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:applications")
