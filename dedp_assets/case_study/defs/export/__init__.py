"""Exports: rows for people outside of the platform's teams, who may not learn who somebody is."""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:data-protection")
