"""Staging: replicas of production's tables, for tests of the next version on real data.

They are pushed when somebody asks for it: data that a test stands on does not change under it. What is computed from
them within staging follows what was pushed.
"""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:web-analytics")
